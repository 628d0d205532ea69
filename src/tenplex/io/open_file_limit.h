// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The number of files that the process may have open at once (ulimit -n).
#pragma once

#include <cstdint>

#include "tenplex/base/result.h"

namespace tenplex {

/// The limit as it is; 0 if it cannot be learned. Threads: any.
std::int64_t open_file_limit();

/// Errors: resource_exhausted if the process may not have `files` open for writing and a few more.
Result<void> check_open_files(std::int64_t files);

/// Raises the limit as far as the system allows without privileges, and returns it; 0 if it cannot be learned. For
/// programs, early in main(): a library must not change it behind its user's back. Threads: any.
std::int64_t raise_open_file_limit();

}  // namespace tenplex
