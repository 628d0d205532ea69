// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/local_part.h"

#include <optional>
#include <utility>

namespace tenplex {

std::vector<RunBox> boxes_of_run(const LocalPart& local, std::int64_t begin, std::int64_t end) {
  const Dims strides = row_major_strides(local.shape);
  std::vector<RunBox> boxes;
  for (const Box& whole : boxes_of_flat_range(local.shape, begin, end)) {
    for (const LocalPiece& piece : local.pieces) {
      std::optional<Box> box = whole.rank() == 0 ? whole : intersect(whole, piece.local);
      if (!box) continue;
      std::int64_t at = 0;
      for (int dim = 0; dim < box->rank(); ++dim) {
        at += box->offset[dim] * strides[dim];
        box->offset[dim] += piece.start[dim] - piece.local.offset[dim];
      }
      boxes.push_back({std::move(*box), at});
    }
  }
  return boxes;
}

}  // namespace tenplex
