// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// CellGrid: the checker's test for overlaps among boxes that are cut like a grid. All begins and ends of the boxes cut
// the tensor into cells; a box that finds one of its cells taken overlaps the box that took it.
//
//      ├ a ┬─ b ─┤       edges 0 2 5      cells  a b b
//      ├───┼──┬──┤             0 1 3             c d e        a cell has one owner, so that the cost is the cells,
//      └ c ┴d─┴ e┘                                            however many boxes lie side by side
//
// Resource. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tenplex/ptc/box.h"

namespace tenplex {

class CellGrid {
 public:
  /// Nothing if there are more than `most_cells` cells. Requires: equal ranks of at least 1, no empty box.
  static std::optional<CellGrid> build(const std::vector<const Box*>& boxes, std::size_t most_cells);

  /// The positions of two of the boxes that share an element, or nothing. May be called once.
  /// Cost: O(boxes · log boxes + cells).
  std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<const Box*>& boxes);

 private:
  CellGrid() = default;
  std::optional<std::size_t> paint(const Box& box, std::uint32_t owner);

  std::vector<std::vector<std::int64_t>> edges_;  // per dimension, ascending
  std::vector<std::uint32_t> owners_;             // per cell, row-major: position of a box + 1, or 0
};

}  // namespace tenplex
