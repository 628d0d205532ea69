// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The checker's own test for overlaps: by cells where the boxes are cut like a grid (cell_grid.h), else boxes sorted
// along one dimension, each compared with those that begin before it ends. Pure function. Threads: any.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tenplex/ptc/box.h"

namespace tenplex {

struct SweptBox {
  const Box* box = nullptr;
  bool backdrop = false;  ///< may overlap other backdrops, but nothing else may overlap it
};

/// The positions of two boxes that share an element and are not both backdrops, or nothing. Requires: equal ranks, no
/// empty box. Cost: O(n log n) for a grid, else O(n log n + pairs that overlap along the best dimension).
std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<SweptBox>& boxes);

}  // namespace tenplex
