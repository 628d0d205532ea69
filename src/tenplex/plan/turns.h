// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Turns: shares among holders in proportion to what their links can send.
//
//   The next turn goes to the holder whose link is done first with its turns so far and this one; at equal times, to
//   the first in order. After round() turns every holder has had exactly its weight:
//
//   weights 1 2 3     turns  2 1 2 0 1 2 | 2 1 2 0 1 2 | …
//
// The number of turns of the busiest link, divided by its weight, is thereby the least possible after every turn.
// Whole numbers only, so that all workers find the same turns. The rule is D'Hondt's method of apportionment.
//
// Resource. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenplex {

class Turns {
 public:
  /// Weights are the bandwidths in their smallest whole proportion. Where they add up to more than 2^31 they are
  /// rounded down to multiples of a power of two; a link that is then 0 takes no turns.
  /// Requires: not empty, all above 0.
  void set_bandwidths(std::span<const std::int64_t> bytes_per_second);

  std::int64_t round() const { return round_; }
  /// The holder, as a position in the bandwidths. Requires: turn >= 0.
  std::size_t holder_at(std::int64_t turn);
  /// How many of `turns` turns every holder has, if at equal times `first` is before those after it, and those before
  /// it are last. Requires: turns >= 0; first < number of bandwidths.
  std::vector<std::int64_t> count(std::int64_t turns, std::size_t first);

 private:
  struct Turn {
    std::int64_t ordinal;  // 1 for the holder's first
    std::size_t holder;
  };

  std::int64_t turns_by(std::int64_t tick) const;
  std::int64_t find_tick(std::int64_t turn, std::size_t first);

  std::vector<std::int64_t> weights_;
  std::int64_t round_ = 0;   // sum of the weights
  bool alike_ = true;        // all weights are 1
  std::vector<Turn> ended_;  // in the tick at hand, in order
};

}  // namespace tenplex
