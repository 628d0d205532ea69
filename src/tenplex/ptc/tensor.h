// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a collection is made of.
//
//   TensorInfo   a logical array: name, dtype, global shape, row-major
//   Piece        where a box of the tensor lies in one shard
//   SubTensor    what one device stores of one tensor: a local array and its pieces
//
// A piece addresses the shard as a strided view, so that ordinary slices, flat ranges (ZeRO, FSDP1) and stored views of
// a shared storage are one thing:
//
//   element `box.offset + i` of the tensor  ==  local[local_offset + Σ_d i[d] · local_strides[d]]
//
// Value types. Threads: as any value.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/box.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex {

struct TensorInfo {
  std::string name;  ///< the framework's own string, verbatim
  DType dtype = DType::kFloat32;
  Dims shape;  ///< global shape

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// Tensors that several owners share: a checkpoint and the collections made of it.
using TensorList = std::shared_ptr<const std::vector<TensorInfo>>;

/// Bytes of the whole tensor. Requires: shape and dtype entered through check_tensor().
std::int64_t size_bytes(const TensorInfo& tensor);

/// Errors: out_of_range for 2^63 elements or 2^60 bytes or more; invalid_argument for a negative extent, or for a
/// sub-byte dtype whose innermost rows are not whole bytes. The message does not name the tensor.
Result<void> check_shape(DType dtype, const Dims& shape);

/// Errors: as check_shape(), with the tensor's name at the start of the message.
Result<void> check_tensor(const TensorInfo& tensor);

struct Piece {
  Box box;                        ///< in the tensor's coordinates
  std::int64_t local_offset = 0;  ///< elements, of the box's first element in the local array
  Dims local_strides;             ///< elements, one per dimension of the box

  friend bool operator==(const Piece&, const Piece&) = default;
};

struct SubTensor {
  Dims local_shape;           ///< of the array as it is stored, contiguous and row-major; any rank
  std::vector<Piece> pieces;  ///< disjoint boxes; elements of the local array outside all of them are padding

  friend bool operator==(const SubTensor&, const SubTensor&) = default;
};

/// "[4, 4] | [0:2, 0:4] at 0 step [4, 1] | [8:10, 0:4] at 8 step [4, 1]": the local shape, then the pieces.
std::string to_string(const SubTensor& shard);

/// The whole tensor in one shard of the same shape.
SubTensor whole_tensor(const Dims& shape);

/// A shard that is one contiguous box.
SubTensor sub_tensor_of_box(const Box& box);

}  // namespace tenplex
