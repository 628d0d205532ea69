// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the chunks of a tensor cut it, in a few words: "whole", "dim 0 in 4", "dim 0 in 2, dim 1 in 4", "whole, 4
// copies", "7 boxes". Value types. Threads: as any value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenplex/ptc/box.h"

namespace tenplex::cli {

struct Cut {
  std::int64_t boxes = 0;           ///< distinct boxes
  std::int64_t copies = 1;          ///< chunks of the box that has the most
  bool grid = false;                ///< the boxes are the product of cuts per dimension
  std::vector<std::int64_t> parts;  ///< per dimension, if `grid`

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// `boxes` may hold equal boxes (copies); its order does not matter. Cost: O(n log n).
Cut cut_of(std::span<const Box> boxes);

std::string cut_text(const Cut& cut);

}  // namespace tenplex::cli
