// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/cut_table.h"

#include <utility>

namespace tenplex {

CutTable::CutTable(const Collection& collection, const Topology& topology, const std::vector<int>& slots)
    : collection_(collection), ranks_on_(static_cast<std::size_t>(topology.worker_count())) {
  for (std::size_t rank = 0; rank < slots.size(); ++rank) {
    worker_of_rank_.push_back(topology.worker_of_slot(slots[rank]));
    ranks_on_[worker_of_rank_.back().index()].push_back(DeviceId(rank));
  }
}

Result<const Cut*> CutTable::cut(TensorId tensor) {
  const std::uint64_t key = collection_.geometry_key(tensor);
  if (const auto found = cuts_.find(key); found != cuts_.end()) return found->second.get();
  TENPLEX_ASSIGN_OR_RETURN(ShardList read, ShardList::read(collection_, tensor));
  auto& shards = shard_lists_[read.hash()];
  if (shards == nullptr) {
    shards = std::make_unique<ShardList>(std::move(read));
    shards->build_index();
  }
  auto cut = std::make_unique<Cut>(Cut{shards.get(), HolderList(collection_, tensor, worker_of_rank_)});
  return cuts_.emplace(key, std::move(cut)).first->second.get();
}

std::vector<std::pair<Holder, std::int64_t>> CutTable::holdings(TensorId tensor, WorkerId worker) const {
  std::vector<std::pair<Holder, std::int64_t>> held;
  std::vector<std::int64_t> shards;
  for (const DeviceId rank : ranks_on(worker)) {
    collection_.shards_of_device(tensor, rank, &shards);
    for (const std::int64_t shard : shards) held.emplace_back(Holder{worker, rank}, shard);
  }
  return held;
}

}  // namespace tenplex
