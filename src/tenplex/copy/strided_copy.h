// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies an N-d box between two strided arrays at the speed of memory. Dimensions that are contiguous on both sides are
// merged first; rows are then moved with the widest instructions the processor has (chosen at run time).
//
// Threads: calls on disjoint destinations are safe together. Source and destination do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tenplex/ptc/dims.h"

namespace tenplex {

struct CopyShape {
  Dims extent;          ///< elements per dimension
  Dims target_strides;  ///< bytes
  Dims source_strides;  ///< bytes
  std::int64_t element_bytes = 1;
};

/// target[Σ i·target_strides] = source[Σ i·source_strides] for every i in extent. Strides may be negative or, in the
/// source, zero; addresses need no alignment. Requires: the elements of the target do not overlap each other.
void strided_copy(std::byte* target, const std::byte* source, const CopyShape& shape);

}  // namespace tenplex
