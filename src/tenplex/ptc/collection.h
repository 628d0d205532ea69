// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Collection: a parallelizable tensor collection (PTC) as the planner sees it. Every tensor is cut into numbered
// *shards*; a shard is held, identically, by one or more devices.
//
//   tensor t ── shard 0 ── held by devices 0, 4        shards of one tensor may overlap in an explicit collection;
//            ├─ shard 1 ── held by devices 1, 5        in a rule-based one they are disjoint and cover it
//            └─ shard 2 ── held by devices 2, 6
//
// RuleCollection (rule_collection.h) answers by arithmetic from a layout and mesh sizes; ExplicitCollection
// (explicit_collection.h) from a list. Source: PAPER, §4 (PTC = slicing σ, partitioning φ, allocation α).
//
// Resource with value-like behaviour: immutable after it is built. Threads: all const calls are safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/ids.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// An opaque object (random state, step counter, scheduler) with one owner device.
struct ObjectInfo {
  std::string name;
  DeviceId owner;

  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};

class Collection {
 public:
  virtual ~Collection() = default;
  Collection(const Collection&) = delete;
  Collection& operator=(const Collection&) = delete;

  virtual int device_count() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;
  virtual std::span<const ObjectInfo> objects() const = 0;

  /// Number of distinct shards of a tensor, numbered from 0.
  virtual std::int64_t shard_count(TensorId tensor) const = 0;

  /// Fills `*shard` (cleared first; its capacity is reused). Requires: 0 <= index < shard_count(tensor).
  virtual void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const = 0;

  /// Replaces `*devices` by the devices that hold the shard, ascending; never empty.
  virtual void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const = 0;

  /// Replaces `*shards` by the shards of the tensor that the device holds, ascending; may be empty.
  /// Cost: O(answer), not O(devices).
  virtual void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const = 0;

  /// Tensors with equal keys (in one collection) have the same shard_count() and, shard by shard, the same SubTensor
  /// and holders; the planner computes the overlaps of such tensors once. A key never repeats by accident.
  virtual std::uint64_t geometry_key(TensorId tensor) const = 0;

  /// Identifies the collection: names, dtypes, shapes, shards, holders and objects. Same on every machine.
  virtual Hash128 hash() const = 0;

  /// The tensor whose elements this one shares, where a layout ties them: the tied one has no shards of its own, the
  /// other one does.
  virtual std::optional<TensorId> alias_of(TensorId tensor) const {
    static_cast<void>(tensor);
    return std::nullopt;
  }

  /// The tensor of that name, or nothing. Cost: O(1).
  virtual std::optional<TensorId> find(std::string_view name) const = 0;

 protected:
  Collection() = default;
};

}  // namespace tenplex
