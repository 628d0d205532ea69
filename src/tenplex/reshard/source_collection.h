// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// SourceCollection: the chunks of a checkpoint as a collection. A shard is a distinct box; chunks with equal boxes are
// its stored copies, and their devices its holders.
//
// It borrows the CheckpointInfo and adds 8 bytes per chunk and 14 per tensor to it. Shards of a tensor are numbered in
// the order of their boxes' first elements. Resource, immutable. Threads: all const calls are safe together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/collection.h"
#include "tenplex/ptc/name_index.h"

namespace tenplex {

class SourceCollection final : public Collection {
 public:
  /// Requires: `info` outlives the collection.
  /// Errors: corrupt for a chunk that does not fit its tensor, and for two tensors of one name.
  static Result<std::unique_ptr<SourceCollection>> build(const CheckpointInfo& info);

  int device_count() const override { return device_count_; }
  std::span<const TensorInfo> tensors() const override { return info_.tensors; }
  std::span<const ObjectInfo> objects() const override { return {}; }
  std::int64_t shard_count(TensorId tensor) const override;
  void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const override;
  void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const override;
  void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const override;
  std::uint64_t geometry_key(TensorId tensor) const override;
  Hash128 hash() const override;
  std::optional<TensorId> find(std::string_view name) const override { return names_.find(name); }

  /// The stored copies of a shard, as indexes into CheckpointInfo::chunks; the first is the one to read.
  std::span<const std::uint32_t> copies(TensorId tensor, std::int64_t index) const;

  /// The box of a shard.
  Box box(TensorId tensor, std::int64_t index) const { return info_.chunks[copies(tensor, index).front()].box; }

  /// True if some shard of some tensor is stored more than once, so that its copies have to be compared.
  bool has_copies() const { return shard_begin_.size() - 1 < order_.size(); }

  /// True if two shards of the tensor share elements, so that they have to be compared.
  bool has_overlaps(TensorId tensor) const;

 private:
  explicit SourceCollection(const CheckpointInfo& info) : info_(info) {}
  void group_by_tensor();
  void sort_tensor(std::size_t tensor);

  const CheckpointInfo& info_;
  int device_count_ = 1;
  NameIndex names_;
  std::vector<std::uint32_t> order_;         // chunks by (tensor, box)
  std::vector<std::uint32_t> tensor_begin_;  // into shard_begin_, per tensor and one past the end
  std::vector<std::uint32_t> shard_begin_;   // into order_, per shard and one past the end
};

}  // namespace tenplex
