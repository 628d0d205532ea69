// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "tenplex/plan/bounds.h"
#include "tenplex/plan/cut_table.h"
#include "tenplex/plan/group_planner.h"
#include "tenplex/plan/match.h"

namespace tenplex {
namespace {

using Holdings = std::vector<std::pair<Holder, std::int64_t>>;
using HoldingSpan = std::span<const std::pair<Holder, std::int64_t>>;

/// The part of sorted holdings that is one worker's.
HoldingSpan of_worker(const Holdings& holdings, WorkerId worker) {
  const auto first = std::lower_bound(holdings.begin(), holdings.end(), worker,
                                      [](const auto& a, WorkerId b) { return a.first.worker < b; });
  const auto last =
      std::upper_bound(first, holdings.end(), worker, [](WorkerId a, const auto& b) { return a < b.first.worker; });
  return {first, last};
}

void append_boxes(const ShardList& shards, HoldingSpan holdings, std::vector<Box>* boxes) {
  std::vector<std::int64_t> numbers;
  for (const auto& [holder, shard] : holdings) numbers.push_back(shard);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  boxes->clear();
  for (const std::int64_t shard : numbers)
    for (std::uint32_t entry = shards.first_entry(shard); entry < shards.end_entry(shard); ++entry)
      boxes->push_back(shards.box(entry));
}

class Planner {
 public:
  explicit Planner(const PlanInput& input)
      : input_(input),
        context_(input),
        source_(*input.source, *input.topology, input.placement.source_slots),
        target_(*input.target, *input.topology, input.placement.target_slots),
        from_(static_cast<std::size_t>(input.topology->worker_count())) {}

  Result<std::vector<WorkerPart>> whole(const Matching& matching);
  Result<WorkerPart> part(const Matching& matching, WorkerId worker);

 private:
  Result<CutPair> cut_pair(const Matching& matching, std::size_t group);
  Result<void> add_group(const CutPair& cut, HoldingSpan needed, HoldingSpan held, GroupPlanner* planner,
                         WorkerPart* part);
  void add_objects(const Matching& matching, WorkerPart* part) const;
  void gather(const CutPair& cut, std::size_t tensors);
  void send(WorkerId sender, std::int64_t bytes);
  void count(const PackedCopies& copies, std::size_t tensors, WorkerPart* part);
  void finish(const Matching& matching, WorkerPart* part);
  std::string_view name_of(const Matching& matching, std::size_t group) const {
    return input_.target->tensors()[matching.groups[group].tensors[0].second.index()].name;
  }

  const PlanInput& input_;
  PlanContext context_;
  CutTable source_;
  CutTable target_;
  std::vector<std::int64_t> from_;                           // bytes from every worker into the part at hand
  std::vector<WorkerId> senders_;                            // those that are not zero
  std::vector<std::pair<WorkerId, std::int64_t>> gathered_;  // kCentral: by the central worker
  std::vector<Box> needed_boxes_;
  std::vector<Box> held_boxes_;
};

Result<CutPair> Planner::cut_pair(const Matching& matching, std::size_t group) {
  const auto [source, target] = matching.groups[group].tensors[0];
  TENPLEX_ASSIGN_OR_RETURN(const Cut* source_cut, source_.cut(source));
  TENPLEX_ASSIGN_OR_RETURN(const Cut* target_cut, target_.cut(target));
  CutPair cut;
  cut.group = static_cast<std::int64_t>(group);
  cut.tensors = matching.groups[group].tensors.size();
  cut.dtype = input_.target->tensors()[target.index()].dtype;
  cut.source = source_cut->shards;
  cut.source_holders = &source_cut->holders;
  cut.target = target_cut->shards;
  cut.target_holders = &target_cut->holders;
  return cut;
}

Result<void> Planner::add_group(const CutPair& cut, HoldingSpan needed, HoldingSpan held, GroupPlanner* planner,
                                WorkerPart* part) {
  TENPLEX_ASSIGN_OR_RETURN(PackedCopies copies, planner->plan(part->worker, needed));
  append_boxes(*cut.target, needed, &needed_boxes_);
  append_boxes(*cut.source, held, &held_boxes_);
  const auto tensors = static_cast<std::int64_t>(cut.tensors);
  const std::int64_t elements = missing_elements(needed_boxes_, held_boxes_);
  part->bytes_in_bound += packed_bytes(cut.dtype, elements).value_or(0) * tensors;
  if (!copies.empty()) part->groups.push_back({static_cast<std::int32_t>(cut.group), std::move(copies)});
  return {};
}

// kCentral: the bytes that the central worker has to collect, each element from the first shard that has it.
void Planner::gather(const CutPair& cut, std::size_t tensors) {
  std::vector<std::uint32_t> hits;
  std::vector<Box> own;
  std::vector<Box> others;
  for (std::int64_t shard = 0; shard < cut.source->shard_count(); ++shard) {
    if (cut.source_holders->on_worker(shard, input_.central, DeviceId(-1)) != nullptr) continue;
    own.clear();
    others.clear();
    for (std::uint32_t entry = cut.source->first_entry(shard); entry < cut.source->end_entry(shard); ++entry) {
      own.push_back(cut.source->box(entry));
      if (cut.source->disjoint()) continue;
      cut.source->find(own.back(), &hits);
      for (const std::uint32_t hit : hits)
        if (hit < entry || cut.source_holders->on_worker(cut.source->shard_of(hit), input_.central, DeviceId(-1)))
          others.push_back(cut.source->box(hit));
    }
    const auto bytes = packed_bytes(cut.dtype, missing_elements(own, others)).value_or(0);
    gathered_.emplace_back(cut.source_holders->workers(shard)[0].worker, bytes * static_cast<std::int64_t>(tensors));
  }
}

void Planner::send(WorkerId sender, std::int64_t bytes) {
  if (bytes == 0) return;
  if (from_[sender.index()] == 0) senders_.push_back(sender);
  from_[sender.index()] += bytes;
}

void Planner::count(const PackedCopies& copies, std::size_t tensors, WorkerPart* part) {
  const bool central = input_.baseline == Baseline::kCentral;
  const auto tensor_count = static_cast<std::int64_t>(tensors);
  for (std::size_t index = 0; index < copies.size(); ++index) {
    const std::int64_t bytes = copies.bytes(index);
    part->totals[static_cast<std::size_t>(copies.copy_class(index))][static_cast<std::size_t>(copies.route(index))] +=
        {tensor_count, bytes * tensor_count};
    if (copies.route(index) != Route::kRemote) continue;
    if (central) {
      if (part->worker != input_.central) send(input_.central, bytes * tensor_count);
    } else if (copies.takes_turns(index)) {
      for (std::size_t tensor = 0; tensor < tensors; ++tensor) send(copies.holder(index, tensor).worker, bytes);
    } else {
      send(copies.holder(index, 0).worker, bytes * tensor_count);
    }
  }
}

void Planner::finish(const Matching& matching, WorkerPart* part) {
  for (const PartGroup& group : part->groups)
    count(group.copies, matching.groups[static_cast<std::size_t>(group.group)].tensors.size(), part);
  if (part->worker == input_.central)
    for (const auto& [worker, bytes] : gathered_) send(worker, bytes);
  std::sort(senders_.begin(), senders_.end());
  for (const WorkerId sender : senders_) {
    part->bytes_from.emplace_back(sender, from_[sender.index()]);
    part->bytes_in += from_[sender.index()];
    from_[sender.index()] = 0;
  }
  senders_.clear();
  add_objects(matching, part);
}

void Planner::add_objects(const Matching& matching, WorkerPart* part) const {
  for (const auto& [source, target] : matching.objects) {
    const DeviceId from = input_.source->objects()[static_cast<std::size_t>(source)].owner;
    const DeviceId to = input_.target->objects()[static_cast<std::size_t>(target)].owner;
    if (target_.worker_of(to) != part->worker) continue;
    ObjectCopy copy{source, target, {source_.worker_of(from), from}, {part->worker, to}, Route::kRemote};
    if (copy.source.worker == part->worker) copy.route = Route::kLocal;
    if (context_.source_rank_of(to) == from) copy.route = Route::kAlias;
    part->objects.push_back(copy);
  }
}

Result<std::vector<WorkerPart>> Planner::whole(const Matching& matching) {
  std::vector<WorkerPart> parts(from_.size());
  for (std::size_t index = 0; index < parts.size(); ++index) parts[index].worker = WorkerId(index);
  for (std::size_t group = 0; group < matching.groups.size(); ++group) {
    TENPLEX_ASSIGN_OR_RETURN(const CutPair cut, cut_pair(matching, group));
    GroupPlanner planner(context_, cut, name_of(matching, group));
    const Holdings needed = cut.target_holders->holdings();
    const Holdings held = cut.source_holders->holdings();
    for (std::size_t first = 0; first < needed.size();) {
      const WorkerId worker = needed[first].first.worker;
      const HoldingSpan own = of_worker(needed, worker);
      TENPLEX_TRY(add_group(cut, own, of_worker(held, worker), &planner, &parts[worker.index()]));
      first += own.size();
    }
    if (input_.baseline == Baseline::kCentral) gather(cut, cut.tensors);
  }
  for (WorkerPart& part : parts) finish(matching, &part);
  return parts;
}

Result<WorkerPart> Planner::part(const Matching& matching, WorkerId worker) {
  WorkerPart part;
  part.worker = worker;
  const bool gathers = input_.baseline == Baseline::kCentral && worker == input_.central;
  for (std::size_t group = 0; group < matching.groups.size(); ++group) {
    const auto [source, target] = matching.groups[group].tensors[0];
    const Holdings needed = target_.holdings(target, worker);
    if (needed.empty() && !gathers) continue;
    TENPLEX_ASSIGN_OR_RETURN(const CutPair cut, cut_pair(matching, group));
    if (!needed.empty()) {
      GroupPlanner planner(context_, cut, name_of(matching, group));
      TENPLEX_TRY(add_group(cut, needed, source_.holdings(source, worker), &planner, &part));
    }
    if (gathers) gather(cut, cut.tensors);
  }
  finish(matching, &part);
  return part;
}

}  // namespace

Result<Plan> make_plan(const PlanInput& input) {
  TENPLEX_ASSIGN_OR_RETURN(Matching matching, match(input));
  Planner planner(input);
  TENPLEX_ASSIGN_OR_RETURN(std::vector<WorkerPart> parts, planner.whole(matching));
  return Plan{make_header(input), std::move(matching.groups), std::move(parts)};
}

Result<WorkerPlan> plan_for_worker(const PlanInput& input, WorkerId worker) {
  if (worker.value() < 0 || worker.value() >= input.topology->worker_count())
    return invalid_argument(
        fmt::format("worker {} does not exist: the topology has {}", worker.value(), input.topology->worker_count()));
  TENPLEX_ASSIGN_OR_RETURN(Matching matching, match(input));
  Planner planner(input);
  TENPLEX_ASSIGN_OR_RETURN(WorkerPart part, planner.part(matching, worker));
  return WorkerPlan{make_header(input), std::move(matching.groups), std::move(part)};
}

}  // namespace tenplex
