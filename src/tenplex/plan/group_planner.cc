// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/group_planner.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {
namespace {

void remove(const Box& hole, std::vector<Box>* rest) {
  std::vector<Box> left;
  for (const Box& part : *rest) {
    const auto parts = subtract(part, hole);
    left.insert(left.end(), parts.begin(), parts.end());
  }
  *rest = std::move(left);
}

}  // namespace

PlanContext::PlanContext(const PlanInput& plan_input) : input(plan_input) {
  source_rank_at_slot.assign(static_cast<std::size_t>(input.topology->slot_count()), DeviceId(-1));
  for (std::size_t rank = 0; rank < input.placement.source_slots.size(); ++rank)
    source_rank_at_slot[static_cast<std::size_t>(input.placement.source_slots[rank])] = DeviceId(rank);
}

GroupPlanner::GroupPlanner(const PlanContext& context, const CutPair& cut, std::string_view name)
    : context_(context), cut_(cut), chooser_(context.input, cut), name_(name) {}

Result<PackedCopies> GroupPlanner::plan(WorkerId worker, std::span<const std::pair<Holder, std::int64_t>> needed) {
  copies_ = PackedCopies(cut_.target->rank());
  pulled_.clear();
  std::vector<std::int64_t> shards;
  for (const auto& [holder, shard] : needed) shards.push_back(shard);
  std::sort(shards.begin(), shards.end());
  may_repeat_ = !cut_.target->disjoint() || std::adjacent_find(shards.begin(), shards.end()) != shards.end();
  for (const auto& [holder, shard] : needed) {
    TENPLEX_CHECK(holder.worker == worker);
    device_ = holder;
    source_rank_ = context_.source_rank_of(holder.device);
    TENPLEX_TRY(plan_shard(shard));
  }
  return std::move(copies_);
}

Result<void> GroupPlanner::plan_shard(std::int64_t shard) {
  const std::int64_t twin = cut_.source->find(cut_.target->shard_hash(shard));
  if (twin >= 0) {
    const Holder* holder = cut_.source_holders->on_worker(twin, device_.worker, source_rank_);
    if (context_.input.baseline == Baseline::kNone && holder != nullptr && holder->device == source_rank_)
      return keep(shard, twin);
    copy_class_ = CopyClass::kMove;
  } else {
    copy_class_ = one_source_has(shard) ? CopyClass::kSplit : CopyClass::kMerge;
  }
  for (entry_ = cut_.target->first_entry(shard); entry_ < cut_.target->end_entry(shard); ++entry_) {
    cut_.source->find(cut_.target->box(entry_), &hits_);
    TENPLEX_TRY(cut_.source->disjoint() ? fill_disjoint() : fill_overlapping());
  }
  return {};
}

Result<void> GroupPlanner::keep(std::int64_t shard, std::int64_t twin) {
  copy_class_ = CopyClass::kKeep;
  entry_ = cut_.target->first_entry(shard);
  for (std::uint32_t source = cut_.source->first_entry(twin); source < cut_.source->end_entry(twin); ++source, ++entry_)
    TENPLEX_TRY(add_source(Route::kAlias, {device_.worker, source_rank_}, source, cut_.source->box(source), {}));
  return {};
}

bool GroupPlanner::one_source_has(std::int64_t shard) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;  // source shard, elements
  for (std::uint32_t entry = cut_.target->first_entry(shard); entry < cut_.target->end_entry(shard); ++entry) {
    cut_.source->find(cut_.target->box(entry), &hits_);
    for (const std::uint32_t hit : hits_) {
      if (cut_.source->disjoint() && !found.empty() && found.back().first != cut_.source->shard_of(hit)) return false;
      found.emplace_back(cut_.source->shard_of(hit),
                         volume(*intersect(cut_.source->box(hit), cut_.target->box(entry))));
    }
  }
  std::sort(found.begin(), found.end());
  for (auto first = found.begin(); first != found.end();) {
    std::int64_t elements = 0;
    const std::int64_t source = first->first;
    for (; first != found.end() && first->first == source; ++first) elements += first->second;
    if (elements == cut_.target->elements(shard)) return true;
  }
  return false;
}

const Holder* GroupPlanner::local_holder(std::int64_t source_shard) const {
  const Baseline baseline = context_.input.baseline;
  if (baseline == Baseline::kFull) return nullptr;
  if (baseline == Baseline::kCentral && device_.worker != context_.input.central) return nullptr;
  return cut_.source_holders->on_worker(source_shard, device_.worker, source_rank_);
}

Result<void> GroupPlanner::fill_disjoint() {
  const Box& box = cut_.target->box(entry_);
  std::int64_t found = 0;
  std::vector<Box> rest;
  for (const std::uint32_t hit : hits_) {
    const Box part = *intersect(cut_.source->box(hit), box);
    found += volume(part);
    if (const Holder* holder = local_holder(cut_.source->shard_of(hit))) {
      TENPLEX_TRY(add_source(Route::kLocal, *holder, hit, part, {}));
      continue;
    }
    if (!may_repeat_) {
      TENPLEX_TRY(pull(hit, part));
      continue;
    }
    rest.assign(1, part);
    TENPLEX_TRY(take_pulled(&rest));
    for (const Box& piece : rest) TENPLEX_TRY(pull(hit, piece));
  }
  if (found != volume(box)) return missing();
  return {};
}

Result<void> GroupPlanner::fill_overlapping() {
  std::vector<Box> rest{cut_.target->box(entry_)};
  TENPLEX_TRY(take_held(true, &rest));
  TENPLEX_TRY(take_held(false, &rest));
  if (may_repeat_) TENPLEX_TRY(take_pulled(&rest));
  for (const std::uint32_t hit : hits_) {
    if (rest.empty()) break;
    const std::vector<Box> parts = rest;
    for (const Box& part : parts)
      if (const auto common = intersect(part, cut_.source->box(hit))) TENPLEX_TRY(pull(hit, *common));
    remove(cut_.source->box(hit), &rest);
  }
  if (!rest.empty()) return missing();
  return {};
}

// Takes what the device itself, or else its worker, holds.
Result<void> GroupPlanner::take_held(bool own_device, std::vector<Box>* rest) {
  for (const std::uint32_t hit : hits_) {
    if (rest->empty()) break;
    const Holder* holder = local_holder(cut_.source->shard_of(hit));
    if (holder == nullptr || (own_device && holder->device != source_rank_)) continue;
    bool taken = false;
    for (const Box& part : *rest) {
      const auto common = intersect(part, cut_.source->box(hit));
      if (!common) continue;
      taken = true;
      TENPLEX_TRY(add_source(Route::kLocal, *holder, hit, *common, {}));
    }
    if (taken) remove(cut_.source->box(hit), rest);
  }
  return {};
}

Result<void> GroupPlanner::take_pulled(std::vector<Box>* rest) {
  if (context_.input.baseline == Baseline::kFull) return {};
  for (const Pulled& pulled : pulled_) {
    if (rest->empty()) break;
    bool taken = false;
    for (const Box& part : *rest) {
      const auto common = intersect(part, pulled.box);
      if (!common) continue;
      taken = true;
      copy_.source_shard = cut_.target->shard_of(pulled.entry);
      set_piece(*cut_.target, pulled.entry, *common, &copy_.source);
      TENPLEX_TRY(add(Route::kRelay, pulled.holder, {}));
    }
    if (taken) remove(pulled.box, rest);
  }
  return {};
}

Result<void> GroupPlanner::pull(std::uint32_t source_entry, const Box& box) {
  const PlanInput& input = context_.input;
  const std::int64_t shard = cut_.source->shard_of(source_entry);
  if (may_repeat_) pulled_.push_back({box, entry_, device_});
  if (input.baseline == Baseline::kCentral) {
    const Holder* own = cut_.source_holders->on_worker(shard, input.central, DeviceId(-1));
    const Holder source = own != nullptr ? *own : cut_.source_holders->workers(shard)[0];
    return add_source(Route::kRemote, source, source_entry, box, {});
  }
  const auto bytes = packed_bytes(cut_.dtype, volume(box)).value_or(0);
  chooser_.choose(device_.worker, shard, cut_.target->shard_of(entry_), box, bytes, &slices_);
  for (const Slice& slice : slices_)
    TENPLEX_TRY(add_source(Route::kRemote, slice.holder, source_entry, slice.box, slice.by_tensor));
  return {};
}

Result<void> GroupPlanner::add_source(Route route, Holder source, std::uint32_t source_entry, const Box& box,
                                      std::span<const Holder> by_tensor) {
  copy_.source_shard = cut_.source->shard_of(source_entry);
  set_piece(*cut_.source, source_entry, box, &copy_.source);
  return add(route, source, by_tensor);
}

Result<void> GroupPlanner::add(Route route, Holder source, std::span<const Holder> by_tensor) {
  const Box& box = copy_.source.box;
  const auto bytes = packed_bytes(cut_.dtype, volume(box));
  if (!bytes)
    return invalid_argument(fmt::format("tensor '{}': box {} of {} is no whole number of bytes", name_, to_string(box),
                                        to_string(cut_.dtype)));
  copy_.copy_class = copy_class_;
  copy_.route = route;
  copy_.bytes = *bytes;
  copy_.source_worker = source.worker;
  copy_.source_device = source.device;
  copy_.target_worker = device_.worker;
  copy_.target_device = device_.device;
  copy_.target_shard = cut_.target->shard_of(entry_);
  set_piece(*cut_.target, entry_, box, &copy_.target);
  copies_.add(copy_, by_tensor);
  return {};
}

void GroupPlanner::set_piece(const ShardList& shards, std::uint32_t entry, const Box& box, Piece* piece) const {
  const Box& whole = shards.box(entry);
  const auto strides = shards.strides(entry);
  piece->box = box;
  piece->local_strides = Dims(strides);
  piece->local_offset = shards.local_offset(entry);
  for (int dim = 0; dim < box.rank(); ++dim)
    piece->local_offset += (box.offset[dim] - whole.offset[dim]) * piece->local_strides[dim];
}

Error GroupPlanner::missing() const {
  std::vector<Box> rest{cut_.target->box(entry_)};
  for (const std::uint32_t hit : hits_) remove(cut_.source->box(hit), &rest);
  const auto first =
      std::min_element(rest.begin(), rest.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  return invalid_argument(fmt::format("tensor '{}': no source device holds {}", name_, to_string(*first)));
}

}  // namespace tenplex
