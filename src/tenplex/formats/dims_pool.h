// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// DimsPool: lists of int64 (shapes, offsets), each distinct one stored once and known by a small number, so that a
// million chunks compare and refer to them in four bytes.
//
// Resource with value-like behaviour: movable. Cost per distinct list: 8 B per number + about 12 B. Threads: const
// calls are safe together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenplex {

class DimsPool {
 public:
  DimsPool();

  /// The number of this list; equal lists have equal numbers.
  std::uint32_t intern(std::span<const std::int64_t> values);
  /// Requires: index < size(). Valid until the next intern().
  std::span<const std::int64_t> operator[](std::uint32_t index) const;
  std::size_t size() const { return starts_.size() - 1; }

 private:
  std::size_t find_slot(std::span<const std::int64_t> values, std::uint64_t hash) const;
  void grow();

  std::uint64_t seed_;
  std::vector<std::int64_t> values_;
  std::vector<std::uint32_t> starts_;  // of list i in values_; one more at the end
  std::vector<std::uint32_t> slots_;   // open addressing: list + 1, 0 = free; a power of two
};

}  // namespace tenplex
