// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What main() hands to every sub-command.
#pragma once

#include <string>

#include "tenplex/cli/signals.h"
#include "tenplex/io/file_system.h"

namespace tenplex::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  ///< `verify`: the two differ
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCannotCompare = 3;  ///< `verify` only
inline constexpr int kExitInterrupted = 130;  ///< stopped by ^C or SIGTERM, nothing left behind

struct Context {
  FileSystem& files;
  Signals& signals;
};

/// Writes to standard output as it is: text from files goes through printable() first. finish_output() says whether all
/// of it arrived.
void print(const std::string& text);

/// Flushes standard output. Errors: io, resource_exhausted if something that was printed could not be written.
Result<void> finish_output();

/// "tenplex: error: …" on standard error, one line in printable(); with `json` also {"error": {"code", "message"}} on
/// standard output. Returns the exit status for it.
int report(const Error& error, bool json);

/// "tenplex: warning: …" on standard error, one line in printable().
void warn(const std::string& text);

}  // namespace tenplex::cli
