// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on sizes that came from outside: the result, or nothing if it does not fit in int64.
#pragma once

#include <cstdint>
#include <optional>

namespace tenplex {

constexpr std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

constexpr std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Rounds up: 7 by 2 gives 4. Requires: a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace tenplex
