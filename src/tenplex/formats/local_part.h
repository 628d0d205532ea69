// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank has of a tensor, as boxes, and which of them a run of its array's elements is.
//
//   array [4, 3] of a rank, rows 0 and 1 are rows 0 and 1 of a tensor, rows 2 and 3 its rows 8 and 9
//   elements [4, 8)  ─►  row 1, columns 1 and 2, at 4 ·· row 8, columns 0 and 1, at 6
//
// Value types, pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/ptc/box.h"

namespace tenplex {

/// A box of a rank's array, and where it starts in the whole tensor.
struct LocalPiece {
  Box local;
  Dims start;

  friend bool operator==(const LocalPiece&, const LocalPiece&) = default;
};

/// What a rank has of a tensor: its array is not necessarily covered, padding is in no piece.
struct LocalPart {
  Dims shape;
  std::vector<LocalPiece> pieces;

  friend bool operator==(const LocalPart&, const LocalPart&) = default;
};

/// A box of the whole tensor, and the element of the array's row-major flattening that is its first one. Its other
/// elements lie from there with the array's row-major strides.
struct RunBox {
  Box box;
  std::int64_t at = 0;

  friend bool operator==(const RunBox&, const RunBox&) = default;
};

/// What elements [begin, end) of the array's flattening are; padding is nothing. Requires: they are in the array.
std::vector<RunBox> boxes_of_run(const LocalPart& local, std::int64_t begin, std::int64_t end);

}  // namespace tenplex
