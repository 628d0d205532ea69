// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PlacementCost: what an assignment of target ranks to workers moves over which link.
//
//   item   everything that one set of target ranks needs; a worker needs it once, however many of those ranks it runs
//   lot    the bytes of an item that one set of source ranks holds
//
// Ranks are added to workers and taken away again; loads follow. Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tenplex/plan/placement_search.h"

namespace tenplex {

struct Lot {
  std::vector<WorkerId> holders;       ///< ascending
  std::vector<DeviceId> source_ranks;  ///< that hold it, ascending
  double bytes = 0;
};

struct Item {
  std::vector<DeviceId> ranks;  ///< target ranks that need it, ascending
  std::vector<Lot> lots;
};

/// Errors: invalid_argument if the collections do not match.
Result<std::vector<Item>> placement_items(const PlacementRequest& request);

struct LinkLoad {
  double busiest_seconds = 0;
  double bytes = 0;

  friend bool operator<(const LinkLoad& a, const LinkLoad& b) {
    return std::pair(a.busiest_seconds, a.bytes) < std::pair(b.busiest_seconds, b.bytes);
  }
};

class PlacementCost {
 public:
  /// Borrows both for its life.
  PlacementCost(const std::vector<Item>& items, const Topology& topology, int ranks);

  /// Returns the seconds of the busiest of the links that get more to do.
  double add(DeviceId rank, WorkerId worker);
  void remove(DeviceId rank, WorkerId worker);
  LinkLoad load() const;
  /// The first worker with the busiest link.
  WorkerId busiest() const;
  /// Bytes that the target rank needs and the source rank holds.
  double kept_bytes(DeviceId rank, DeviceId source_rank) const;
  /// Bytes that the rank needs and the worker holds.
  double kept_bytes(DeviceId rank, WorkerId worker) const;
  const std::vector<std::int32_t>& items_of(DeviceId rank) const { return items_of_rank_[rank.index()]; }
  /// No assignment's busiest link is idler than this.
  double bound_seconds(const std::vector<int>& capacity) const;

 private:
  struct ItemAtWorker {
    std::int32_t worker;
    std::int32_t ranks;
  };

  double change(std::int32_t item, WorkerId worker, double sign);
  double seconds_of(std::size_t worker) const;

  const std::vector<Item>& items_;
  const Topology& topology_;
  std::vector<std::vector<std::int32_t>> items_of_rank_;
  std::vector<std::vector<ItemAtWorker>> at_;  // per item
  std::vector<double> in_;                     // bytes, per worker
  std::vector<double> out_;
};

}  // namespace tenplex
