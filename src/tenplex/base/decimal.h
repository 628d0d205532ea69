// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers in names of files and tensors. Pure. Threads: any.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace tenplex {

/// The value of a text that is decimal digits only; nothing for any other text, a sign too, and beyond 63 bits.
inline std::optional<std::int64_t> decimal_of(std::string_view digits) {
  if (digits.empty() || digits.front() == '-') return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace tenplex
