// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Order of file names as people number them: "rank2" before "rank10". Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

/// Runs of digits are compared by value, then by length; everything else byte by byte. A strict weak order.
bool natural_less(std::string_view a, std::string_view b);

/// The numbers in a name and the text around them: "device-00001-of-00004" → {1, 4}, "device-#-of-#".
struct NumberedName {
  std::string pattern;
  std::vector<std::int64_t> numbers;
};

/// Nothing if a number exceeds int64.
std::optional<NumberedName> split_numbers(std::string_view name);

/// Checks that names, sorted, are one family whose one changing number counts up by one from 0 or 1, and where a
/// constant number behind it and "-of-" says how many there are, that there are so many.
/// Errors: not_found naming the first missing file; invalid_argument if the names are no such family.
Result<void> check_numbering(const std::vector<std::string>& names);

}  // namespace tenplex
