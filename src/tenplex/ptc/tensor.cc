// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/tensor.h"

#include <fmt/format.h>

#include "tenplex/base/checked.h"

namespace tenplex {

std::int64_t size_bytes(const TensorInfo& tensor) { return *packed_bytes(tensor.dtype, volume(tensor.shape)); }

Result<void> check_shape(DType dtype, const Dims& shape) {
  for (const std::int64_t length : shape)
    if (length < 0) return invalid_argument(fmt::format("shape {} has a negative extent", to_string(shape)));
  const auto elements = checked_volume(shape);
  if (!elements) return out_of_range(fmt::format("shape {} has 2^63 elements or more", to_string(shape)));
  if (!checked_mul(*elements, bit_width(dtype)))
    return out_of_range(fmt::format("{} of shape {} has 2^60 bytes or more", to_string(dtype), to_string(shape)));
  const std::int64_t row = shape.empty() ? 1 : shape[shape.rank() - 1];
  if (row % 8 * bit_width(dtype) % 8 != 0)
    return invalid_argument(fmt::format("rows of {} {} elements are not whole bytes", row, to_string(dtype)));
  return {};
}

Result<void> check_tensor(const TensorInfo& tensor) {
  const auto checked = check_shape(tensor.dtype, tensor.shape);
  if (checked) return {};
  return Error(checked.error().code(), fmt::format("tensor '{}': {}", tensor.name, checked.error().message()));
}

std::string to_string(const SubTensor& shard) {
  std::string text = to_string(shard.local_shape);
  for (const Piece& piece : shard.pieces)
    text +=
        fmt::format(" | {} at {} step {}", to_string(piece.box), piece.local_offset, to_string(piece.local_strides));
  return text;
}

SubTensor whole_tensor(const Dims& shape) { return sub_tensor_of_box(Box::whole(shape)); }

SubTensor sub_tensor_of_box(const Box& box) {
  SubTensor shard{box.extent, {}};
  if (!box.empty()) shard.pieces.push_back({box, 0, row_major_strides(box.extent)});
  return shard;
}

}  // namespace tenplex
