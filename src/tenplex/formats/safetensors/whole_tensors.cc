// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/whole_tensors.h"

#include <algorithm>

namespace tenplex::safetensors {

bool all_whole(const Collection& collection) {
  SubTensor shard;
  for (std::size_t index = 0; index < collection.tensors().size(); ++index) {
    const TensorInfo& tensor = collection.tensors()[index];
    if (size_bytes(tensor) == 0 || collection.alias_of(TensorId(index))) continue;
    if (collection.shard_count(TensorId(index)) != 1) return false;
    collection.shard(TensorId(index), 0, &shard);
    if (shard.pieces.size() != 1 || shard.pieces[0].box != Box::whole(tensor.shape)) return false;
  }
  return true;
}

Segment whole_segment(const Collection& collection, TensorId tensor) {
  const TensorInfo& info = collection.tensors()[tensor.index()];
  Segment segment{Segment::Kind::kShard, tensor, 0, 0, size_bytes(info)};
  SubTensor shard;
  collection.shard(tensor, 0, &shard);
  if (shard != whole_tensor(info.shape)) segment.kind = Segment::Kind::kPiece;
  return segment;
}

std::vector<TensorId> stored_order(const Collection& collection, const std::vector<TensorId>& aliases) {
  std::vector<TensorId> order;
  for (std::size_t index = 0; index < aliases.size(); ++index)
    if (aliases[index] == TensorId(index)) order.push_back(TensorId(index));
  std::sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    const int bits_a = bit_width(collection.tensors()[a.index()].dtype);
    const int bits_b = bit_width(collection.tensors()[b.index()].dtype);
    return bits_a != bits_b ? bits_a > bits_b : a < b;
  });
  return order;
}

}  // namespace tenplex::safetensors
