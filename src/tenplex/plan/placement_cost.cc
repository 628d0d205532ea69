// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/placement_cost.h"

#include <algorithm>
#include <limits>
#include <map>

#include "tenplex/plan/cut_table.h"
#include "tenplex/plan/match.h"

namespace tenplex {
namespace {

bool has(const std::vector<WorkerId>& workers, WorkerId worker) {
  return std::binary_search(workers.begin(), workers.end(), worker);
}

using LotMap = std::map<std::vector<DeviceId>, double>;  // by source ranks

std::vector<DeviceId> ranks_of(const HolderList& holders, std::int64_t shard) {
  std::vector<DeviceId> ranks;
  for (const Holder& holder : holders.holders(shard)) ranks.push_back(holder.device);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// Adds what every set of target ranks needs of the tensors of one group.
void add_group(const Cut& source, const Cut& target, double element_bytes,
               std::map<std::vector<DeviceId>, LotMap>* items) {
  std::vector<std::uint32_t> hits;
  for (std::int64_t shard = 0; shard < target.shards->shard_count(); ++shard) {
    LotMap& lots = (*items)[ranks_of(target.holders, shard)];
    for (std::uint32_t entry = target.shards->first_entry(shard); entry < target.shards->end_entry(shard); ++entry) {
      source.shards->find(target.shards->box(entry), &hits);
      for (const std::uint32_t hit : hits) {
        const auto common = intersect(source.shards->box(hit), target.shards->box(entry));
        lots[ranks_of(source.holders, source.shards->shard_of(hit))] +=
            static_cast<double>(volume(*common)) * element_bytes;
      }
    }
  }
}

}  // namespace

Result<std::vector<Item>> placement_items(const PlacementRequest& request) {
  PlanInput input;
  input.source = request.source;
  input.target = request.target;
  input.topology = request.topology;
  input.allow_unused_source = true;
  input.placement.source_slots = request.source_slots;
  TENPLEX_ASSIGN_OR_RETURN(const Matching matching, match_collections(input));
  CutTable sources(*request.source, *request.topology, request.source_slots);
  std::vector<int> no_slots(static_cast<std::size_t>(request.target->device_count()), 0);
  CutTable targets(*request.target, *request.topology, no_slots);
  std::map<std::vector<DeviceId>, LotMap> found;
  for (const TensorGroup& group : matching.groups) {
    const auto [source, target] = group.tensors[0];
    TENPLEX_ASSIGN_OR_RETURN(const Cut* source_cut, sources.cut(source));
    TENPLEX_ASSIGN_OR_RETURN(const Cut* target_cut, targets.cut(target));
    const int bits = bit_width(request.target->tensors()[target.index()].dtype);
    add_group(*source_cut, *target_cut, bits / 8.0 * static_cast<double>(group.tensors.size()), &found);
  }
  std::vector<Item> items;
  for (const auto& [ranks, lots] : found) {
    Item& item = items.emplace_back(Item{ranks, {}});
    for (const auto& [source_ranks, bytes] : lots) {
      Lot& lot = item.lots.emplace_back(Lot{{}, source_ranks, bytes});
      for (const DeviceId rank : source_ranks) lot.holders.push_back(sources.worker_of(rank));
      std::sort(lot.holders.begin(), lot.holders.end());
      lot.holders.erase(std::unique(lot.holders.begin(), lot.holders.end()), lot.holders.end());
    }
  }
  return items;
}

PlacementCost::PlacementCost(const std::vector<Item>& items, const Topology& topology, int ranks)
    : items_(items),
      topology_(topology),
      items_of_rank_(static_cast<std::size_t>(ranks)),
      at_(items.size()),
      in_(static_cast<std::size_t>(topology.worker_count())),
      out_(in_.size()) {
  for (std::size_t item = 0; item < items.size(); ++item)
    for (const DeviceId rank : items[item].ranks)
      items_of_rank_[rank.index()].push_back(static_cast<std::int32_t>(item));
}

// Returns the seconds of the busiest link that changes.
double PlacementCost::change(std::int32_t item, WorkerId worker, double sign) {
  double busiest = 0;
  for (const Lot& lot : items_[static_cast<std::size_t>(item)].lots) {
    if (has(lot.holders, worker)) continue;
    in_[worker.index()] += sign * lot.bytes;
    double bandwidth = 0;
    for (const WorkerId holder : lot.holders)
      bandwidth += static_cast<double>(topology_.worker(holder).out_bytes_per_second);
    for (const WorkerId holder : lot.holders) {
      out_[holder.index()] +=
          sign * lot.bytes * static_cast<double>(topology_.worker(holder).out_bytes_per_second) / bandwidth;
      busiest = std::max(busiest, seconds_of(holder.index()));
    }
    busiest = std::max(busiest, seconds_of(worker.index()));
  }
  return busiest;
}

double PlacementCost::add(DeviceId rank, WorkerId worker) {
  double busiest = 0;
  for (const std::int32_t item : items_of(rank)) {
    auto& workers = at_[static_cast<std::size_t>(item)];
    const auto found = std::find_if(workers.begin(), workers.end(),
                                    [worker](const ItemAtWorker& a) { return a.worker == worker.value(); });
    if (found != workers.end()) {
      ++found->ranks;
      continue;
    }
    workers.push_back({worker.value(), 1});
    busiest = std::max(busiest, change(item, worker, 1));
  }
  return busiest;
}

void PlacementCost::remove(DeviceId rank, WorkerId worker) {
  for (const std::int32_t item : items_of(rank)) {
    auto& workers = at_[static_cast<std::size_t>(item)];
    const auto found = std::find_if(workers.begin(), workers.end(),
                                    [worker](const ItemAtWorker& a) { return a.worker == worker.value(); });
    if (--found->ranks > 0) continue;
    workers.erase(found);
    change(item, worker, -1);
  }
}

/// Of the busier direction of the worker's link.
double PlacementCost::seconds_of(std::size_t worker) const {
  const Worker& info = topology_.worker(WorkerId(worker));
  return std::max(in_[worker] / static_cast<double>(info.in_bytes_per_second),
                  out_[worker] / static_cast<double>(info.out_bytes_per_second));
}

WorkerId PlacementCost::busiest() const {
  std::size_t busiest = 0;
  for (std::size_t worker = 1; worker < in_.size(); ++worker)
    if (seconds_of(worker) > seconds_of(busiest)) busiest = worker;
  return WorkerId(busiest);
}

LinkLoad PlacementCost::load() const {
  LinkLoad load;
  for (std::size_t worker = 0; worker < in_.size(); ++worker) {
    load.busiest_seconds = std::max(load.busiest_seconds, seconds_of(worker));
    load.bytes += in_[worker];
  }
  // Loads are sums of differences; a rounding rest must not decide between placements.
  load.busiest_seconds = static_cast<double>(static_cast<float>(load.busiest_seconds));
  load.bytes = static_cast<double>(static_cast<float>(load.bytes));
  return load;
}

double PlacementCost::kept_bytes(DeviceId rank, DeviceId source_rank) const {
  double bytes = 0;
  for (const std::int32_t item : items_of(rank))
    for (const Lot& lot : items_[static_cast<std::size_t>(item)].lots)
      if (std::binary_search(lot.source_ranks.begin(), lot.source_ranks.end(), source_rank)) bytes += lot.bytes;
  return bytes;
}

double PlacementCost::kept_bytes(DeviceId rank, WorkerId worker) const {
  double bytes = 0;
  for (const std::int32_t item : items_of(rank))
    for (const Lot& lot : items_[static_cast<std::size_t>(item)].lots)
      if (has(lot.holders, worker)) bytes += lot.bytes;
  return bytes;
}

// Two bounds on the bytes that must move. First: every item must come to at least ceil(ranks / largest worker) workers,
// at best those that lack least of it. Second: of what only one rank needs, a worker keeps at most what its `capacity`
// ranks with the most have there.
double PlacementCost::bound_seconds(const std::vector<int>& capacity) const {
  const auto largest = static_cast<std::size_t>(std::max(1, *std::max_element(capacity.begin(), capacity.end())));
  std::vector<std::vector<double>> kept(in_.size());  // per worker: bytes of single ranks that it holds
  std::vector<bool> sends(in_.size());
  double total = 0;
  double single = 0;
  double most = 0;
  for (const Item& item : items_) {
    std::map<WorkerId, double> held;
    double all = 0;
    for (const Lot& lot : item.lots) {
      all += lot.bytes;
      for (const WorkerId worker : lot.holders) {
        held[worker] += lot.bytes;
        sends[worker.index()] = true;
      }
    }
    std::vector<double> missing;
    for (const auto& [worker, bytes] : held) {
      if (capacity[worker.index()] == 0) continue;
      missing.push_back(all - bytes);
      if (item.ranks.size() == 1) kept[worker.index()].push_back(bytes);
    }
    if (item.ranks.size() == 1) single += all;
    std::sort(missing.begin(), missing.end());
    double last = 0;
    for (std::size_t index = 0; index < (item.ranks.size() + largest - 1) / largest; ++index) {
      last = index < missing.size() ? missing[index] : all;
      total += last;
    }
    most = std::max(most, last);
  }
  for (std::size_t worker = 0; worker < kept.size(); ++worker) {
    std::sort(kept[worker].rbegin(), kept[worker].rend());
    const auto ranks = std::min(kept[worker].size(), static_cast<std::size_t>(capacity[worker]));
    for (std::size_t rank = 0; rank < ranks; ++rank) single -= kept[worker][rank];
  }
  total = std::max(total, single);
  double in_bandwidth = 0;
  double out_bandwidth = 0;
  double fastest = 1;
  for (std::size_t index = 0; index < in_.size(); ++index) {
    const Worker& worker = topology_.worker(WorkerId(index));
    if (sends[index]) out_bandwidth += static_cast<double>(worker.out_bytes_per_second);
    if (capacity[index] == 0) continue;
    in_bandwidth += static_cast<double>(worker.in_bytes_per_second);
    fastest = std::max(fastest, static_cast<double>(worker.in_bytes_per_second));
  }
  if (total <= 0 || in_bandwidth <= 0 || out_bandwidth <= 0) return 0;
  return std::max({total / in_bandwidth, total / out_bandwidth, most / fastest});
}

}  // namespace tenplex
