// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copy: one box from one sub-tensor into another. PackedCopies: many of them for a group of tensors that are cut alike.
//
//   packed:  fixed-size fields + 4·rank numbers per copy (box offset and extent, source and target strides)
//
// Where holders of a small box take turns from tensor to tensor, a packed copy lists one holder per tensor of its
// group. Values. Threads: as any value.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/ids.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// Says of a whole target sub-tensor how it comes about.
enum class CopyClass : std::uint8_t {
  kKeep,   ///< the device already holds the identical sub-tensor
  kMove,   ///< another device holds the identical sub-tensor
  kSplit,  ///< all its elements lie in one source shard
  kMerge,  ///< its elements lie in several source shards
};
inline constexpr int kCopyClassCount = 4;
std::string_view to_string(CopyClass copy_class);

/// How the bytes get there.
enum class Route : std::uint8_t {
  kAlias,   ///< they stay where they are
  kLocal,   ///< copied from a source shard on the same worker
  kRelay,   ///< copied from a target shard on the same worker that was filled by kRemote copies
  kRemote,  ///< over the network
};
inline constexpr int kRouteCount = 4;
std::string_view to_string(Route route);

struct Copy {
  CopyClass copy_class = CopyClass::kKeep;
  Route route = Route::kAlias;
  TensorId source_tensor;
  TensorId target_tensor;
  std::int64_t source_shard = 0;  ///< kRelay: number of a shard of the target collection
  std::int64_t target_shard = 0;
  DeviceId source_device;  ///< rank in the source mesh; kRelay: in the target mesh
  DeviceId target_device;  ///< rank in the target mesh
  WorkerId source_worker;
  WorkerId target_worker;
  std::int64_t bytes = 0;
  Piece source;  ///< source.box == target.box
  Piece target;

  friend bool operator==(const Copy&, const Copy&) = default;
};

struct Holder {
  WorkerId worker;
  DeviceId device;

  friend auto operator<=>(const Holder&, const Holder&) = default;
};

class PackedCopies {
 public:
  explicit PackedCopies(int rank = 0) : rank_(rank) {}

  std::size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }
  int rank() const { return rank_; }

  /// `by_tensor`: the holder for every tensor of the group, where they differ; empty: `copy`'s for all.
  /// Requires: copy.source.box.rank() == rank().
  void add(const Copy& copy, std::span<const Holder> by_tensor);

  /// Fills everything but the tensor ids. `tensor` = position in the group.
  void get(std::size_t index, std::size_t tensor, Copy* copy) const;
  /// True if the copy's holder depends on the tensor.
  bool takes_turns(std::size_t index) const { return fields_[index].first_turn >= 0; }
  /// True if holder() may be asked for `tensors` tensors.
  bool has_turns(std::size_t index, std::size_t tensors) const {
    return !takes_turns(index) || static_cast<std::size_t>(fields_[index].first_turn) + tensors <= turns_.size();
  }
  Holder holder(std::size_t index, std::size_t tensor) const;
  CopyClass copy_class(std::size_t index) const { return fields_[index].copy_class; }
  Route route(std::size_t index) const { return fields_[index].route; }
  std::int64_t bytes(std::size_t index) const { return fields_[index].bytes; }
  std::size_t memory_bytes() const {
    return fields_.capacity() * sizeof(Fields) + dims_.capacity() * 8 + turns_.capacity() * sizeof(Holder);
  }

  void add_to(Hasher* hasher) const;
  void append_to(std::string* bytes) const;

  friend bool operator==(const PackedCopies&, const PackedCopies&) = default;

 private:
  struct Fields {
    std::int64_t bytes;
    std::int64_t source_offset;
    std::int64_t target_offset;
    std::int32_t source_shard;
    std::int32_t target_shard;
    Holder source;
    Holder target;
    std::int32_t first_turn;  // into turns_, or −1
    CopyClass copy_class;
    Route route;
    std::uint16_t unused;

    friend bool operator==(const Fields&, const Fields&) = default;
  };

  int rank_;
  std::vector<Fields> fields_;
  std::vector<std::int64_t> dims_;
  std::vector<Holder> turns_;
};

}  // namespace tenplex
