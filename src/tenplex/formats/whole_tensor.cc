// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/whole_tensor.h"

namespace tenplex {

bool is_whole(const Collection& collection, TensorId tensor) {
  const TensorInfo& info = collection.tensors()[tensor.index()];
  if (size_bytes(info) == 0 || collection.alias_of(tensor)) return true;
  if (collection.shard_count(tensor) != 1) return false;
  SubTensor shard;
  collection.shard(tensor, 0, &shard);
  return shard.pieces.size() == 1 && shard.pieces[0].box == Box::whole(info.shape);
}

Segment whole_segment(const Collection& collection, TensorId tensor) {
  const TensorInfo& info = collection.tensors()[tensor.index()];
  Segment segment{Segment::Kind::kShard, tensor, 0, 0, size_bytes(info)};
  if (segment.size_bytes == 0) return segment;
  SubTensor shard;
  collection.shard(tensor, 0, &shard);
  if (shard != whole_tensor(info.shape)) segment.kind = Segment::Kind::kPiece;
  return segment;
}

}  // namespace tenplex
