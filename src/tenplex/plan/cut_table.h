// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// CutTable: reads the cuts of a collection's tensors, each distinct one once.
//
// Holders are kept per geometry key, shards per distinct list of shards: stages of a pipeline hold different tensors,
// yet cut them alike. Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tenplex/plan/shard_list.h"

namespace tenplex {

struct Cut {
  const ShardList* shards = nullptr;
  HolderList holders;
};

class CutTable {
 public:
  /// Borrows the collection. `slots`: the slot of every rank.
  CutTable(const Collection& collection, const Topology& topology, const std::vector<int>& slots);

  /// Valid while the table lives. Errors: of ShardList::read().
  Result<const Cut*> cut(TensorId tensor);

  WorkerId worker_of(DeviceId rank) const { return worker_of_rank_[rank.index()]; }
  /// Ranks on a worker, ascending.
  const std::vector<DeviceId>& ranks_on(WorkerId worker) const { return ranks_on_[worker.index()]; }
  /// (holder, shard) of everything that the worker's devices hold, ascending; asks the collection rank by rank.
  std::vector<std::pair<Holder, std::int64_t>> holdings(TensorId tensor, WorkerId worker) const;

 private:
  const Collection& collection_;
  std::vector<WorkerId> worker_of_rank_;
  std::vector<std::vector<DeviceId>> ranks_on_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Cut>> cuts_;
  std::map<Hash128, std::unique_ptr<ShardList>> shard_lists_;
};

}  // namespace tenplex
