// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/unit.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

std::int64_t elements_in_whole_bytes(DType dtype) {
  switch (bit_width(dtype) % 8) {
    case 4:
      return 2;
    case 6:
    case 2:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

Unit Unit::of(DType source, DType target) {
  Unit unit;
  unit.elements = std::max(elements_in_whole_bytes(source), elements_in_whole_bytes(target));
  unit.source_bytes = unit.elements * bit_width(source) / 8;
  unit.target_bytes = unit.elements * bit_width(target) / 8;
  return unit;
}

Result<Box> in_units(const Unit& unit, const Box& box) {
  Box result = box;
  if (unit.elements == 1) return result;
  const int inner = box.rank() - 1;
  if (inner < 0 || box.offset[inner] % unit.elements != 0 || box.extent[inner] % unit.elements != 0) {
    return invalid_argument(fmt::format("box {} is not cut at whole bytes", to_string(box)));
  }
  result.offset[inner] /= unit.elements;
  result.extent[inner] /= unit.elements;
  return result;
}

Result<ByteView> in_bytes(const Unit& unit, std::int64_t unit_bytes, const Dims& extent, std::int64_t offset,
                          const Dims& strides) {
  ByteView view;
  view.strides = strides;
  const int inner = strides.rank() - 1;
  for (int dim = 0; dim < strides.rank(); ++dim) {
    std::int64_t& stride = view.strides[dim];
    if (unit.elements > 1 && dim == inner) {
      if (stride != 1 && extent[dim] > 1) return unsupported("elements smaller than a byte are stored apart");
      stride = unit_bytes;
      continue;
    }
    if (stride % unit.elements != 0 && extent[dim] > 1) return unsupported("rows do not start at whole bytes");
    const auto bytes = checked_mul(stride / unit.elements, unit_bytes);
    if (!bytes) return out_of_range(fmt::format("stride {} is too large", stride));
    stride = extent[dim] > 1 ? *bytes : 0;
  }
  const auto bytes = checked_mul(offset / unit.elements, unit_bytes);
  if (!bytes || offset % unit.elements != 0) return out_of_range(fmt::format("offset {} is not possible", offset));
  view.offset = *bytes;
  return view;
}

Dims contiguous_strides(const Dims& extent, std::int64_t unit_bytes) {
  Dims strides = row_major_strides(extent);
  for (std::int64_t& stride : strides) stride *= unit_bytes;
  return strides;
}

bool is_contiguous(const Dims& extent, const Dims& strides, std::int64_t unit_bytes) {
  std::int64_t expected = unit_bytes;
  for (int dim = extent.rank() - 1; dim >= 0; --dim) {
    if (extent[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected *= extent[dim];
  }
  return true;
}

std::int64_t span_bytes(const Dims& extent, const Dims& strides, std::int64_t unit_bytes) {
  std::int64_t last = 0;
  for (int dim = 0; dim < extent.rank(); ++dim) last += (extent[dim] - 1) * strides[dim];
  return last + unit_bytes;
}

std::int64_t offset_of(const Dims& position, const Dims& begin, const Dims& strides) {
  std::int64_t offset = 0;
  for (int dim = 0; dim < position.rank(); ++dim) offset += (position[dim] - begin[dim]) * strides[dim];
  return offset;
}

}  // namespace tenplex
