// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/strided_equal.h"

#include <cstring>

namespace tenplex {

bool strided_equal(const std::byte* a, const std::byte* b, const CopyShape& shape) {
  const Dims& extent = shape.extent;
  // The innermost dimensions that are contiguous on both sides are compared as one run.
  std::int64_t run = shape.element_bytes;
  int outer = extent.rank();
  while (outer > 0 && (extent[outer - 1] == 1 ||
                       (shape.target_strides[outer - 1] == run && shape.source_strides[outer - 1] == run))) {
    run *= extent[--outer];
  }
  Dims index = Dims::filled(outer, 0);
  for (;;) {
    std::int64_t a_offset = 0;
    std::int64_t b_offset = 0;
    for (int dim = 0; dim < outer; ++dim) {
      a_offset += index[dim] * shape.target_strides[dim];
      b_offset += index[dim] * shape.source_strides[dim];
    }
    if (std::memcmp(a + a_offset, b + b_offset, static_cast<std::size_t>(run)) != 0) return false;
    int dim = outer - 1;
    while (dim >= 0 && ++index[dim] == extent[dim]) index[dim--] = 0;
    if (dim < 0) return true;
  }
}

}  // namespace tenplex
