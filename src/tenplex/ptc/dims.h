// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Dims: up to eight int64, one per dimension of a tensor: a shape, an offset, an extent or a list of strides.
//
// Dimension 0 is the outermost one; tensors are row-major, so the last dimension is contiguous. Rank 0 is a scalar.
// Value type. Threads: as any value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "tenplex/base/check.h"

namespace tenplex {

inline constexpr int kMaxRank = 8;

class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  /// Requires: values.size() <= kMaxRank.
  constexpr explicit Dims(std::span<const std::int64_t> values) : rank_(static_cast<int>(values.size())) {
    TENPLEX_CHECK(values.size() <= kMaxRank);
    std::copy(values.begin(), values.end(), values_.begin());
  }
  /// `rank` copies of `value`. Requires: 0 <= rank <= kMaxRank.
  static constexpr Dims filled(int rank, std::int64_t value) {
    TENPLEX_CHECK(rank >= 0 && rank <= kMaxRank);
    Dims dims;
    dims.rank_ = rank;
    std::fill_n(dims.values_.begin(), rank, value);
    return dims;
  }

  constexpr int rank() const { return rank_; }
  constexpr std::size_t size() const { return static_cast<std::size_t>(rank_); }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr std::int64_t& operator[](int dim) { return values_[static_cast<std::size_t>(dim)]; }
  constexpr std::int64_t operator[](int dim) const { return values_[static_cast<std::size_t>(dim)]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + rank_; }
  constexpr std::int64_t* begin() { return values_.data(); }
  constexpr std::int64_t* end() { return values_.data() + rank_; }
  constexpr std::span<const std::int64_t> span() const { return {values_.data(), size()}; }

  /// Requires: rank() < kMaxRank.
  constexpr void push_back(std::int64_t value) {
    TENPLEX_CHECK(rank_ < kMaxRank);
    values_[static_cast<std::size_t>(rank_++)] = value;
  }

  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }
  /// Lexicographic; a prefix comes first.
  friend constexpr bool operator<(const Dims& a, const Dims& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

/// Product of the extents; 1 for rank 0, nothing if it exceeds int64 or an extent is negative.
std::optional<std::int64_t> checked_volume(const Dims& extent);

/// Product of the extents. Requires: it fits (shapes that entered through a checked path do).
std::int64_t volume(const Dims& extent);

/// Strides, in elements, of a contiguous row-major array of this shape. Empty extents count as 1.
Dims row_major_strides(const Dims& shape);

/// "[4096, 1024]".
std::string to_string(const Dims& dims);

}  // namespace tenplex
