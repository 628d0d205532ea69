// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/tensor.h"

#include <fmt/format.h>

namespace tenplex {

std::int64_t size_bytes(const TensorInfo& tensor) { return *packed_bytes(tensor.dtype, volume(tensor.shape)); }

Result<void> check_tensor(const TensorInfo& tensor) {
  for (const std::int64_t length : tensor.shape)
    if (length < 0)
      return invalid_argument(
          fmt::format("tensor '{}': shape {} has a negative extent", tensor.name, to_string(tensor.shape)));
  const auto elements = checked_volume(tensor.shape);
  if (!elements)
    return out_of_range(fmt::format("tensor '{}': shape {} is too large", tensor.name, to_string(tensor.shape)));
  if (!is_sub_byte(tensor.dtype)) {
    if (!packed_bytes(tensor.dtype, *elements))
      return out_of_range(fmt::format("tensor '{}': {} of shape {} exceeds 2^63 bytes", tensor.name,
                                      to_string(tensor.dtype), to_string(tensor.shape)));
    return {};
  }
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape[tensor.shape.rank() - 1];
  if (!packed_bytes(tensor.dtype, row) || !packed_bytes(tensor.dtype, *elements))
    return invalid_argument(fmt::format("tensor '{}': rows of {} {} elements are not whole bytes", tensor.name, row,
                                        to_string(tensor.dtype)));
  return {};
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
