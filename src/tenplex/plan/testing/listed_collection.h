// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ListedCollection: a collection given shard by shard, for the tests and benchmarks of this component.
//
// Every tensor is a list of (sub-tensor, holders); tensors with equal `geometry` must be cut and held alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/ptc/collection.h"

namespace tenplex {

struct ListedShard {
  SubTensor sub_tensor;
  std::vector<DeviceId> holders;
};

struct ListedTensor {
  TensorInfo info;
  std::vector<ListedShard> shards;
  std::uint64_t geometry = 0;  ///< 0 = its own
};

class ListedCollection final : public Collection {
 public:
  ListedCollection(int device_count, std::vector<ListedTensor> listed, std::vector<ObjectInfo> objects = {})
      : device_count_(device_count), listed_(std::move(listed)), objects_(std::move(objects)) {
    for (const ListedTensor& tensor : listed_) infos_.push_back(tensor.info);
  }

  int device_count() const override { return device_count_; }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  std::span<const ObjectInfo> objects() const override { return objects_; }
  std::int64_t shard_count(TensorId tensor) const override {
    return static_cast<std::int64_t>(listed_[tensor.index()].shards.size());
  }
  void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const override {
    *shard = listed_[tensor.index()].shards[static_cast<std::size_t>(index)].sub_tensor;
  }
  void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const override {
    *devices = listed_[tensor.index()].shards[static_cast<std::size_t>(index)].holders;
  }
  void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const override {
    shards->clear();
    std::int64_t index = 0;
    for (const ListedShard& shard : listed_[tensor.index()].shards) {
      if (std::find(shard.holders.begin(), shard.holders.end(), device) != shard.holders.end())
        shards->push_back(index);
      ++index;
    }
  }
  std::uint64_t geometry_key(TensorId tensor) const override {
    const std::uint64_t geometry = listed_[tensor.index()].geometry;
    return geometry != 0 ? geometry : (std::uint64_t{1} << 32) + tensor.index();
  }
  Hash128 hash() const override {
    Hasher hasher;
    hasher.add(device_count_);
    for (const ListedTensor& tensor : listed_) {
      hasher.add(tensor.info.name);
      hasher.add(static_cast<std::int64_t>(tensor.info.dtype));
      add(tensor.info.shape, &hasher);
      for (const ListedShard& shard : tensor.shards) add(shard, &hasher);
    }
    for (const ObjectInfo& object : objects_) {
      hasher.add(object.name);
      hasher.add(object.owner.value());
    }
    return hasher.finish();
  }
  std::optional<TensorId> find(std::string_view name) const override {
    for (std::size_t index = 0; index < infos_.size(); ++index)
      if (infos_[index].name == name) return TensorId(index);
    return std::nullopt;
  }

 private:
  static void add(const Dims& dims, Hasher* hasher) {
    hasher->add(dims.rank());
    for (const std::int64_t value : dims) hasher->add(value);
  }
  static void add(const ListedShard& shard, Hasher* hasher) {
    add(shard.sub_tensor.local_shape, hasher);
    hasher->add(static_cast<std::int64_t>(shard.sub_tensor.pieces.size()));
    for (const Piece& piece : shard.sub_tensor.pieces) {
      add(piece.box.offset, hasher);
      add(piece.box.extent, hasher);
      hasher->add(piece.local_offset);
      add(piece.local_strides, hasher);
    }
    hasher->add(static_cast<std::int64_t>(shard.holders.size()));
    for (const DeviceId device : shard.holders) hasher->add(device.value());
  }

  int device_count_;
  std::vector<ListedTensor> listed_;
  std::vector<ObjectInfo> objects_;
  std::vector<TensorInfo> infos_;
};

/// A tensor cut evenly along one dimension, part i held by holders[i].
inline ListedTensor cut_tensor(std::string name, DType dtype, const Dims& shape, int dim,
                               const std::vector<std::vector<DeviceId>>& holders) {
  ListedTensor tensor{{std::move(name), dtype, shape}, {}, 0};
  const auto parts = static_cast<std::int64_t>(holders.size());
  std::int64_t begin = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    Box box = Box::whole(shape);
    if (!shape.empty()) {
      const std::int64_t end = shape[dim] * (part + 1) / parts;
      box.offset[dim] = begin;
      box.extent[dim] = end - begin;
      begin = end;
    }
    tensor.shards.push_back({sub_tensor_of_box(box), holders[static_cast<std::size_t>(part)]});
  }
  return tensor;
}

}  // namespace tenplex
