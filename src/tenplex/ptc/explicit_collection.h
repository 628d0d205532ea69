// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ExplicitCollection: a collection that lists its shards, as read from a checkpoint or a manifest.
//
//   ExplicitCollectionBuilder builder(tensors, device_count, objects);
//   for (each stored shard) TENPLEX_TRY(builder.add(device, tensor, shard));
//   TENPLEX_ASSIGN_OR_RETURN(auto collection, std::move(builder).finish());
//
// Equal shards of one tensor on several devices become one shard with several holders. The
// order of a tensor's shards depends on their contents alone (contiguous boxes by their offsets), not on that of add().
//
// Storage is packed, because a checkpoint may have millions of chunks: 28 B and 16 B per dimension for a shard that is
// one contiguous box on one device. Strides are stored only where they are not those of a contiguous box.
//
// Resource, immutable. Threads: all calls are safe together. The builder: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tenplex/ptc/collection.h"
#include "tenplex/ptc/name_index.h"

namespace tenplex {

class ExplicitCollection final : public Collection {
 public:
  int device_count() const override { return device_count_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  std::span<const ObjectInfo> objects() const override { return objects_; }
  std::int64_t shard_count(TensorId tensor) const override;
  void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const override;
  void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const override;
  void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const override;
  std::uint64_t geometry_key(TensorId tensor) const override { return geometry_[tensor.index()]; }
  Hash128 hash() const override { return hash_; }
  std::optional<TensorId> find(std::string_view name) const override { return names_.find(name); }

  /// Bytes that the shards take, without the tensors' names.
  std::int64_t memory_bytes() const;

 private:
  friend class ExplicitCollectionBuilder;

  struct Holding {
    std::int32_t device;
    std::uint32_t shard;  // number within the tensor
  };

  ExplicitCollection() = default;
  std::span<const std::int64_t> words(std::uint64_t global_shard) const;
  void index_holdings();
  std::vector<Hash128> find_equal_geometries();
  void compute_hash(std::span<const Hash128> geometries);
  Hash128 geometry_hash(std::size_t tensor) const;
  bool same_geometry(std::size_t a, std::size_t b) const;

  int device_count_ = 1;
  std::vector<TensorInfo> tensors_;
  std::vector<ObjectInfo> objects_;
  NameIndex names_;
  // Shards of tensor t have the global numbers [first_shard_[t], first_shard_[t + 1]).
  std::vector<std::uint64_t> first_shard_;
  std::vector<std::int64_t> words_;        // see shard_words.h
  std::vector<std::uint64_t> word_begin_;  // per global shard, and one past the end
  // Devices of global shard s: holders_[holder_begin_[s] .. holder_begin_[s + 1]), ascending.
  std::vector<std::uint32_t> holder_begin_;
  std::vector<std::int32_t> holders_;
  // What devices hold of tensor t, ascending by device, then shard; same bounds as the holders of its shards.
  std::vector<Holding> holdings_;
  std::vector<std::uint64_t> geometry_;
  Hash128 hash_;
};

class ExplicitCollectionBuilder {
 public:
  ExplicitCollectionBuilder(std::vector<TensorInfo> tensors, int device_count, std::vector<ObjectInfo> objects);

  /// Makes room for shards of this rank. Optional.
  void reserve(std::size_t shards, int rank);

  /// Adds a shard that the device holds. The same shard may be added again for the same device.
  /// Errors: invalid_argument or out_of_range, naming the tensor, if the tensor or device does not exist, a piece lies
  /// outside the tensor or outside the local array, or two pieces overlap.
  Result<void> add(DeviceId device, TensorId tensor, const SubTensor& shard);
  /// Adds a shard that is one contiguous box.
  Result<void> add_box(DeviceId device, TensorId tensor, const Box& box);

  /// Number of shards added so far.
  std::size_t size() const { return entries_.size(); }

  /// `shard_of_added`, if given, receives the number (within its tensor) of every added shard, in the order of add().
  /// Errors: invalid_argument for two tensors of one name, or a tensor that check_tensor() refuses.
  Result<std::unique_ptr<ExplicitCollection>> finish(std::vector<std::int64_t>* shard_of_added = nullptr) &&;

 private:
  struct Entry {
    std::uint64_t word_begin;
    std::uint32_t word_count;
    std::int32_t tensor;
    std::int32_t device;
  };

  Result<void> check(DeviceId device, TensorId tensor, const SubTensor& shard) const;
  Result<void> check_ids(DeviceId device, TensorId tensor) const;
  bool equal(const Entry& a, const Entry& b) const;
  bool less(const Entry& a, const Entry& b) const;
  std::vector<std::uint32_t> sorted_order() const;
  void pack(const std::vector<std::uint32_t>& order, ExplicitCollection* collection,
            std::vector<std::int64_t>* shard_of_added) const;

  int device_count_;
  std::vector<TensorInfo> tensors_;
  std::vector<ObjectInfo> objects_;
  std::vector<std::int64_t> words_;
  std::vector<Entry> entries_;
};

}  // namespace tenplex
