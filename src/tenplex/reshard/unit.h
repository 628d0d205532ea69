// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Unit: the smallest run of neighbouring elements that fills whole bytes; the engine counts a tensor's innermost
// dimension in units, so that 4- and 6-bit types need no code of their own.
//
//   float32: 1 element = 4 bytes     float4: 2 elements = 1 byte     float6: 4 elements = 3 bytes
//
// When a tensor is converted, one unit holds whole bytes of both dtypes. Value type.
#pragma once

#include <cstdint>

#include "tenplex/base/result.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct Unit {
  std::int64_t elements = 1;
  std::int64_t source_bytes = 1;  ///< of one unit in the source's dtype
  std::int64_t target_bytes = 1;  ///< of one unit in the target's dtype

  static Unit of(DType source, DType target);
};

/// `box` with its innermost dimension in units. Errors: invalid_argument if it is not cut at whole units.
Result<Box> in_units(const Unit& unit, const Box& box);

/// Where a piece lies in a byte array: the offset of its first unit, and strides between units.
struct ByteView {
  std::int64_t offset = 0;
  Dims strides;
};

/// `offset` and `strides` in elements, for a box of `extent` elements of `unit_bytes` per unit.
/// Errors: invalid_argument if the innermost units are not contiguous or not aligned; out_of_range.
Result<ByteView> in_bytes(const Unit& unit, std::int64_t unit_bytes, const Dims& extent, std::int64_t offset,
                          const Dims& strides);

/// Byte strides of a contiguous row-major array of `extent` units.
Dims contiguous_strides(const Dims& extent, std::int64_t unit_bytes);

/// True if `strides` walk `extent` units without gaps, in row-major order (dimensions of one unit do not count).
bool is_contiguous(const Dims& extent, const Dims& strides, std::int64_t unit_bytes);

/// Bytes from the first unit's begin to the last one's end. Requires: no extent is 0; strides are not negative.
std::int64_t span_bytes(const Dims& extent, const Dims& strides, std::int64_t unit_bytes);

/// Offset in bytes of the unit at `position` of a box that begins at `begin`.
std::int64_t offset_of(const Dims& position, const Dims& begin, const Dims& strides);

}  // namespace tenplex
