// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Box: a half-open N-d hyper-rectangle [offset, offset + extent) of a tensor, rank 0..8.
//
//   dim 1 →        offset = {1, 2}, extent = {2, 3}
//   . . . . . .    a box with a zero extent holds nothing;
//   . . # # # .    a box of rank 0 holds the one element of a scalar
//   . . # # # .
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenplex/ptc/dims.h"

namespace tenplex {

struct Box {
  Dims offset;
  Dims extent;

  /// The box that covers a whole tensor of this shape.
  static Box whole(const Dims& shape) { return {Dims::filled(shape.rank(), 0), shape}; }

  int rank() const { return extent.rank(); }
  bool empty() const { return std::find(extent.begin(), extent.end(), 0) != extent.end(); }
  /// Exclusive end along one dimension.
  std::int64_t end(int dim) const { return offset[dim] + extent[dim]; }

  friend bool operator==(const Box&, const Box&) = default;
};

/// Number of elements. Requires: it fits in int64.
inline std::int64_t volume(const Box& box) { return volume(box.extent); }

/// The common part of two boxes of equal rank, or nothing if it is empty.
std::optional<Box> intersect(const Box& a, const Box& b);

/// True if every element of `inner` lies in `outer` (an empty box lies in every box of its rank).
bool contains(const Box& outer, const Box& inner);

/// `a` without `b`: at most 2·rank disjoint boxes, in row-major order of their first elements.
std::vector<Box> subtract(const Box& a, const Box& b);

/// The elements [begin, end) of the row-major flattening of `shape`, as at most 2·rank − 1 disjoint boxes in flat
/// order. Requires: 0 <= begin <= end <= volume(shape).
std::vector<Box> boxes_of_flat_range(const Dims& shape, std::int64_t begin, std::int64_t end);

/// "[0:4, 128:256]"; "[]" for rank 0.
std::string to_string(const Box& box);

}  // namespace tenplex
