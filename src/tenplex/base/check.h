// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// TENPLEX_CHECK(condition): stops the program on a broken invariant of its own. Never reachable from input: whatever
// a file, a peer or a user can cause is an Error.
#pragma once

namespace tenplex::internal {

/// Prints "file:line: check failed: condition" to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace tenplex::internal

#define TENPLEX_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::tenplex::internal::check_failed(__FILE__, __LINE__, #condition))
