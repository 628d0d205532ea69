// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A number of things in words. Pure function. Threads: any.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace tenplex {

/// "1 file", "0 files", "2 files". Requires: a noun whose plural ends in s.
std::string counted(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tenplex
