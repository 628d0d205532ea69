// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Text from files and arguments, made safe to show on a terminal: what comes out is one line of UTF-8 that neither
// steers the terminal nor changes the order or place of the text around it.
//
//   line break, carriage return, tab                              \n  \r  \t
//   other control characters below U+0080; bytes that are no UTF-8   \x1b
//   U+0080 to U+009F, invisible and direction-changing characters,
//   line and paragraph separators                                 \u202e, or \U000e0001 above U+FFFF
//
// Pure functions. Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace tenplex {

/// For whole messages; a backslash stays as it is.
std::string printable(std::string_view text);

/// For names and paths: a backslash becomes "\\", so that different names give different texts.
std::string printable_name(std::string_view name);

}  // namespace tenplex
