// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How one tensor is cut, and who holds the parts, in the form that the planner asks.
//
//   ShardList    the pieces of all shards in a BoxIndex; shared by all tensors that are cut alike
//   HolderList   shard → (worker, device), ascending; shared by all tensors of one geometry key
//
// Values that do not change once read. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/ids.h"
#include "tenplex/plan/overlap.h"
#include "tenplex/plan/packed_copies.h"
#include "tenplex/plan/topology.h"
#include "tenplex/ptc/collection.h"

namespace tenplex {

class ShardList {
 public:
  /// Errors: invalid_argument naming the tensor if a piece's rank differs from the tensor's, or it leaves the shape.
  static Result<ShardList> read(const Collection& collection, TensorId tensor);

  int rank() const { return rank_; }
  std::int64_t shard_count() const { return static_cast<std::int64_t>(first_entry_.size()) - 1; }
  /// Identifies all shards together.
  Hash128 hash() const { return hash_; }
  Hash128 shard_hash(std::int64_t shard) const { return shard_hashes_[static_cast<std::size_t>(shard)]; }
  /// The lowest shard with this hash, or −1.
  std::int64_t find(const Hash128& shard_hash) const;

  // Entries: the non-empty pieces of all shards, in order of (shard, piece).
  std::uint32_t first_entry(std::int64_t shard) const { return first_entry_[static_cast<std::size_t>(shard)]; }
  std::uint32_t end_entry(std::int64_t shard) const { return first_entry_[static_cast<std::size_t>(shard) + 1]; }
  std::int64_t shard_of(std::uint32_t entry) const { return shard_[entry]; }
  std::int64_t local_offset(std::uint32_t entry) const { return local_offset_[entry]; }
  std::span<const std::int64_t> strides(std::uint32_t entry) const;
  const Box& box(std::uint32_t entry) const { return boxes_[entry]; }
  /// Elements in all pieces of a shard.
  std::int64_t elements(std::int64_t shard) const { return elements_[static_cast<std::size_t>(shard)]; }

  /// Requires: build_index() was called. Replaces `*entries` by those that meet `box`, ascending.
  void find(const Box& box, std::vector<std::uint32_t>* entries) const { index_.find(box, entries); }
  /// True if no element lies in two entries. Requires: build_index() was called.
  bool disjoint() const { return disjoint_; }
  /// Called once, for the lists that are kept.
  void build_index();

  ShardList(ShardList&&) noexcept = default;
  ShardList& operator=(ShardList&&) noexcept = default;

 private:
  explicit ShardList(int rank) : rank_(rank), index_(rank) {}
  void add(std::int64_t shard, const SubTensor& sub_tensor);

  int rank_;
  BoxIndex index_;
  bool disjoint_ = true;
  std::vector<std::uint32_t> first_entry_{0};
  std::vector<std::int64_t> shard_;
  std::vector<Box> boxes_;
  std::vector<std::int64_t> local_offset_;
  std::vector<std::int64_t> strides_;
  std::vector<std::int64_t> elements_;
  std::vector<Hash128> shard_hashes_;
  std::vector<std::pair<Hash128, std::int64_t>> by_hash_;
  Hash128 hash_;
};

class HolderList {
 public:
  HolderList(const Collection& collection, TensorId tensor, const std::vector<WorkerId>& worker_of_rank);

  /// Ascending by worker, then device.
  std::span<const Holder> holders(std::int64_t shard) const;
  /// The first holder of every distinct worker, ascending.
  std::span<const Holder> workers(std::int64_t shard) const;
  /// The lowest device of the worker that holds the shard, `preferred` if that one does; nothing if none does.
  const Holder* on_worker(std::int64_t shard, WorkerId worker, DeviceId preferred) const;

  /// (holder, shard), ascending: what every device holds. Cost: O(n log n).
  std::vector<std::pair<Holder, std::int64_t>> holdings() const;

 private:
  std::vector<std::uint32_t> first_{0};
  std::vector<Holder> holders_;
  std::vector<std::uint32_t> first_worker_{0};
  std::vector<Holder> workers_;
};

}  // namespace tenplex
