// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// BoxIndex: which of many boxes meet a given box. A packed R-tree that is loaded at once.
//
//   level 1      [ node 0 ................ ][ node 1 ...... ]      node i bounds entries 16·i … 16·i + 15 of the
//   level 0      b b b b b b b b b b b b b b b b b b b b b b      level below, so the tree needs no pointers
//
// Boxes are put in tree order by halving them, again and again, along the dimension that they cut most often; boxes
// that share a node are then neighbours however the tensor was cut. Boxes may overlap.
//
// Cost: O(n log n) to build, O(log n + answer) to ask for disjoint boxes; 16 B per dimension and 8 B per box.
// Movable, not copyable; immutable after build(). Threads: const calls are safe together.
// Source: Kamel and Faloutsos, "On Packing R-trees", 1993.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenplex/ptc/box.h"

namespace tenplex {

class BoxIndex {
 public:
  /// Requires: 0 <= rank <= kMaxRank.
  explicit BoxIndex(int rank);
  BoxIndex(const BoxIndex&) = delete;
  BoxIndex& operator=(const BoxIndex&) = delete;
  BoxIndex(BoxIndex&&) noexcept = default;
  BoxIndex& operator=(BoxIndex&&) noexcept = default;

  /// Boxes are numbered from 0 in the order of addition. Requires: not built yet; rank agrees; not empty.
  void add(const Box& box);
  void build();

  std::size_t size() const { return position_.size(); }
  Box box(std::uint32_t number) const;
  /// The begin of every dimension, then the end of every dimension; a scalar's are unspecified. Requires: built.
  const std::int64_t* bounds(std::uint32_t number) const {
    return levels_[0].bounds.data() + std::size_t{position_[number]} * 2 * static_cast<std::size_t>(rank_);
  }

  /// Replaces `*numbers` by the boxes that share an element with `query`, ascending. Requires: built; rank agrees.
  void find(const Box& query, std::vector<std::uint32_t>* numbers) const;

  /// True if a box numbered below `number` shares an element with it. Requires: built.
  bool is_shadowed(std::uint32_t number) const;

 private:
  struct Level {
    std::vector<std::int64_t> bounds;  // per entry: begin of every dimension, then end of every dimension
    std::size_t count = 0;
  };

  /// Numbers per entry of a level.
  std::ptrdiff_t row_size() const { return std::ptrdiff_t{2} * rank_; }
  void arrange(std::size_t begin, std::size_t end);
  int most_cut_dim(std::size_t begin, std::size_t end) const;
  void add_levels();
  template <int kRank, typename Visit>
  bool visit(std::size_t level, std::size_t begin, const std::int64_t* query, Visit& visit_entry) const;
  template <typename Visit>
  void visit_all(const std::int64_t* query, Visit& visit_entry) const;

  int rank_;  // a scalar is kept as the 1-d box [0, 1)
  bool scalar_;
  std::vector<std::uint32_t> number_;    // tree position → number
  std::vector<std::uint32_t> position_;  // number → tree position
  std::vector<Level> levels_;            // levels_[0] are the boxes themselves
};

}  // namespace tenplex
