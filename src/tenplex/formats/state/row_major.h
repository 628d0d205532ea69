// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pure. Threads: safe together.
#pragma once

#include "tenplex/ptc/dims.h"

namespace tenplex {

/// True if `strides`, in elements, are those of a contiguous array of this shape. Strides of dimensions of extent 0 and
/// 1 say nothing.
inline bool is_row_major(const Dims& strides, const Dims& shape) {
  if (strides.rank() != shape.rank()) return false;
  const Dims expected = row_major_strides(shape);
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (shape[dim] > 1 && strides[dim] != expected[dim]) return false;
  return true;
}

}  // namespace tenplex
