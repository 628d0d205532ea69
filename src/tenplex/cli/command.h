// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Command: one sub-command of the program, its options bound to variables that `run` owns.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "tenplex/base/result.h"
#include "tenplex/cli/context.h"

namespace tenplex::cli {

struct Command {
  CLI::App* app = nullptr;                         ///< parsed() says whether it was chosen
  const bool* json = nullptr;                      ///< nullptr: the command has no --json
  std::function<Result<int>(const Context&)> run;  ///< exit status, or the error to report
  int exit_on_error = kExitFailed;                 ///< also when the output could not be written
};

/// "tenplex layouts show".
std::string full_name(const CLI::App& app);

}  // namespace tenplex::cli
