// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Conversion between float32, float64, float16 and bfloat16, as PyTorch's Tensor.to() does it: to the nearest value,
// ties to even; what is too large becomes an infinity; a NaN stays a NaN and an infinity an infinity; subnormal values
// are kept. Every conversion but float64 → float64 goes through float32, so that float64 → float16 and bfloat16 round
// twice, as there.
//
// Threads: calls on disjoint targets are safe together. Source and target do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tenplex/ptc/dims.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex {

/// True for the four types above, each to each.
bool can_convert(DType source_dtype, DType target_dtype);

struct ConvertShape {
  Dims extent;          ///< elements per dimension
  Dims target_strides;  ///< bytes
  Dims source_strides;  ///< bytes
};

/// As strided_copy(), converting on the way. Requires: can_convert(source_dtype, target_dtype).
void strided_convert(DType target_dtype, std::byte* target, DType source_dtype, const std::byte* source,
                     const ConvertShape& shape);

}  // namespace tenplex
