// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// WindowGrid: cuts a box into windows of bounded size that follow each other in row-major order.
//
//   shape [2, 6, 4], at most 8 units:    dims after `dim` are whole, `dim` is cut in steps, dims before it are single
//     [0:1, 0:2, 0:4] [0:1, 2:4, 0:4] [0:1, 4:6, 0:4] [1:2, 0:2, 0:4] …
//
// Every window is one box and one contiguous range of the flattened array. Value type.
#pragma once

#include <cstdint>

#include "tenplex/ptc/box.h"

namespace tenplex {

class WindowGrid {
 public:
  /// Requires: max_units >= 1; no extent of `whole` is 0.
  WindowGrid(const Box& whole, std::int64_t max_units);

  std::int64_t count() const { return count_; }

  /// Requires: 0 <= index < count().
  Box window(std::int64_t index) const;

  /// The windows that a box meets lie in [first_of(box), last_of(box)]. Requires: it is not empty and lies inside.
  std::int64_t first_of(const Box& box) const;
  std::int64_t last_of(const Box& box) const;

 private:
  std::int64_t index_of(const Dims& position) const;

  Box whole_;
  int dim_ = 0;
  std::int64_t step_ = 1;       // units along dim_
  std::int64_t per_outer_ = 1;  // windows along dim_
  std::int64_t count_ = 1;
};

}  // namespace tenplex
