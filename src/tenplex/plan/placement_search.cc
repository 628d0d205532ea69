// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/placement_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "tenplex/plan/assignment.h"

namespace tenplex {
namespace {

Result<std::vector<std::vector<DeviceId>>> complete_groups(const PlacementRequest& request) {
  const auto ranks = static_cast<std::size_t>(request.target->device_count());
  std::vector<std::vector<DeviceId>> groups = request.tp_groups;
  if (groups.empty())
    for (std::size_t rank = 0; rank < ranks; ++rank) groups.push_back({DeviceId(rank)});
  std::vector<int> seen(ranks);
  for (const auto& group : groups)
    for (const DeviceId rank : group) {
      if (rank.value() < 0 || rank.index() >= ranks || ++seen[rank.index()] > 1)
        return invalid_argument(
            fmt::format("placement: rank {} is in two groups or not a rank of the target", rank.value()));
    }
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing != seen.end())
    return invalid_argument(fmt::format("placement: rank {} is in no group", missing - seen.begin()));
  return groups;
}

Result<std::vector<int>> complete_slots(const PlacementRequest& request) {
  std::vector<int> slots = request.usable_slots;
  if (slots.empty()) {
    slots.resize(static_cast<std::size_t>(request.topology->slot_count()));
    std::iota(slots.begin(), slots.end(), 0);
  }
  std::sort(slots.begin(), slots.end());
  if (std::adjacent_find(slots.begin(), slots.end()) != slots.end())
    return invalid_argument("placement: a usable slot is given twice");
  if (!slots.empty() && (slots.front() < 0 || slots.back() >= request.topology->slot_count()))
    return invalid_argument(
        fmt::format("placement: a usable slot lies outside the {} of the topology", request.topology->slot_count()));
  if (slots.size() < static_cast<std::size_t>(request.target->device_count()))
    return invalid_argument(fmt::format("placement: the target has {} ranks, but only {} devices are usable",
                                        request.target->device_count(), slots.size()));
  return slots;
}

/// Puts the ranks of every worker on its slots: those that hold most of what a rank needs first.
std::vector<int> slots_of(const PlacementRequest& request, const std::vector<int>& usable, const Assignment& assignment,
                          const PlacementCost& cost) {
  std::vector<DeviceId> source_rank(static_cast<std::size_t>(request.topology->slot_count()), DeviceId(-1));
  for (std::size_t rank = 0; rank < request.source_slots.size(); ++rank)
    source_rank[static_cast<std::size_t>(request.source_slots[rank])] = DeviceId(rank);
  std::vector<std::vector<DeviceId>> ranks_on(static_cast<std::size_t>(request.topology->worker_count()));
  for (std::size_t rank = 0; rank < assignment.size(); ++rank)
    ranks_on[assignment[rank].index()].push_back(DeviceId(rank));
  std::vector<std::tuple<double, int, DeviceId>> wishes;  // −bytes, slot, rank
  for (const int slot : usable)
    for (const DeviceId rank : ranks_on[request.topology->worker_of_slot(slot).index()]) {
      const DeviceId source = source_rank[static_cast<std::size_t>(slot)];
      wishes.emplace_back(source.value() < 0 ? 0 : -cost.kept_bytes(rank, source), slot, rank);
    }
  std::sort(wishes.begin(), wishes.end());
  std::vector<int> slots(assignment.size(), -1);
  std::vector<bool> taken(source_rank.size());
  for (const auto& [bytes, slot, rank] : wishes) {
    if (slots[rank.index()] >= 0 || taken[static_cast<std::size_t>(slot)]) continue;
    slots[rank.index()] = slot;
    taken[static_cast<std::size_t>(slot)] = true;
  }
  return slots;
}

Result<void> check_request(const PlacementRequest& request) {
  Placement placement{request.source_slots, std::vector<int>(static_cast<std::size_t>(request.target->device_count()))};
  std::iota(placement.target_slots.begin(), placement.target_slots.end(), 0);
  return check_placement(placement, *request.source, *request.target, *request.topology);
}

Assignment rank_order(const PlacementRequest& request, const std::vector<int>& usable) {
  Assignment assignment;
  for (int rank = 0; rank < request.target->device_count(); ++rank)
    assignment.push_back(request.topology->worker_of_slot(usable[static_cast<std::size_t>(rank)]));
  return assignment;
}

Assignment searched(const PlacementRequest& request, const AssignmentProblem& problem, const Assignment& in_order,
                    PlacementResult* result) {
  if (const auto all = search_all(problem, request.max_assignments)) {
    result->exhaustive = true;
    result->assignments = all->assignments;
    return all->assignment;
  }
  Assignment greedy = search_greedily(problem, request.max_exchange_rounds);
  return load_of(problem, in_order) < load_of(problem, greedy) ? in_order : greedy;
}

}  // namespace

std::string_view to_string(PlacementPolicy policy) { return policy == PlacementPolicy::kKeep ? "keep" : "rank-order"; }

Result<PlacementPolicy> parse_placement_policy(std::string_view name) {
  if (name == "keep") return PlacementPolicy::kKeep;
  if (name == "rank-order") return PlacementPolicy::kRankOrder;
  return invalid_argument(fmt::format("placement: expected 'keep' or 'rank-order', found '{}'", name));
}

Result<PlacementResult> place(const PlacementRequest& request) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<int> usable, complete_slots(request));
  TENPLEX_TRY(check_request(request));
  AssignmentProblem problem;
  TENPLEX_ASSIGN_OR_RETURN(problem.groups, complete_groups(request));
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<Item> items, placement_items(request));
  problem.items = &items;
  problem.topology = request.topology;
  problem.ranks = request.target->device_count();
  problem.capacity.resize(static_cast<std::size_t>(request.topology->worker_count()));
  for (const int slot : usable) ++problem.capacity[request.topology->worker_of_slot(slot).index()];
  PlacementResult result;
  result.policy = request.policy;
  result.keeps_groups = request.policy == PlacementPolicy::kKeep &&
                        std::any_of(problem.groups.begin(), problem.groups.end(),
                                    [](const std::vector<DeviceId>& group) { return group.size() > 1; });
  Assignment assignment = rank_order(request, usable);
  if (request.policy == PlacementPolicy::kKeep) assignment = searched(request, problem, assignment, &result);
  const PlacementCost cost(items, *request.topology, problem.ranks);
  const LinkLoad load = load_of(problem, assignment);
  result.busiest_seconds = load.busiest_seconds;
  result.bytes = load.bytes;
  result.bound_seconds = cost.bound_seconds(problem.capacity);
  result.placement.source_slots = request.source_slots;
  if (request.policy == PlacementPolicy::kRankOrder)
    result.placement.target_slots.assign(usable.begin(), usable.begin() + problem.ranks);
  else
    result.placement.target_slots = slots_of(request, usable, assignment, cost);
  return result;
}

}  // namespace tenplex
