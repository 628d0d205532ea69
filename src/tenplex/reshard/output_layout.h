// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// OutputLayout: the data segments of an output plan, turned round: for every tensor the arrays that hold it, and for
// every array the places where it is written (a replicated shard has several).
//
//   plan:    file 0: [literal][t0 shard 0][t1 shard 0]      layout:  t0: shard 0 → (file 0, 120)
//            file 1: [literal][t0 shard 1][t1 shard 0]               t1: shard 0 → (file 0, 184), (file 1, 184)
//
// Value type, immutable. Cost: 16 B per data segment, 40 B per array. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Where the bytes of an array go.
struct Destination {
  std::int32_t file = 0;
  std::uint32_t segment = 0;
  std::int64_t offset = 0;  ///< in the file
};

/// A contiguous run of bytes of the target: a shard, a piece of one, a whole tensor, or a storage that tensors share.
struct OutputArray {
  enum class Kind : std::uint8_t { kShard, kPiece, kWhole, kStorage };

  Kind kind = Kind::kShard;
  TensorId tensor;         ///< unset for kStorage
  std::int32_t piece = 0;  ///< for kStorage its place in storages()
  std::uint32_t first_destination = 0;
  std::uint32_t destination_count = 0;
  std::int64_t shard = 0;  ///< for kStorage its number
  std::int64_t size_bytes = 0;
};

class OutputLayout {
 public:
  /// Errors: internal if the plan leaves out a shard or gives it another size than the target does.
  static Result<OutputLayout> build(const OutputPlan& plan, const Collection& target, const CheckpointWriter& writer);

  /// Arrays of one tensor, in the order of shards and pieces; without storages.
  std::span<const OutputArray> arrays_of(TensorId tensor) const;

  std::span<const OutputArray> storages() const { return storages_; }

  /// The tensors in one of storages().
  std::span<const StorageView> views(const OutputArray& storage) const {
    return views_[static_cast<std::size_t>(storage.piece)];
  }

  /// In the order of files and offsets.
  std::span<const Destination> destinations(const OutputArray& array) const {
    return std::span(destinations_).subspan(array.first_destination, array.destination_count);
  }

  /// Tensors that have arrays, in the order in which the files want them.
  std::span<const TensorId> order() const { return order_; }

 private:
  OutputLayout() = default;
  Result<void> check_complete(const OutputPlan& plan, const Collection& target) const;
  void add(const Segment& segment, std::uint32_t place, const Collection& target, const CheckpointWriter& writer);
  void index_tensors(std::size_t tensors);

  std::vector<OutputArray> arrays_;
  std::vector<std::uint32_t> tensor_begin_;  // into arrays_, per tensor and one past the end
  std::vector<OutputArray> storages_;
  std::vector<std::vector<StorageView>> views_;  // per storage
  std::vector<Destination> destinations_;
  std::vector<TensorId> order_;
};

}  // namespace tenplex
