// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// GroupPlanner: the copies into one worker after another for one group of tensors.
//
//   every target piece:   held by the device itself ► held on the worker ► already pulled by a neighbour ► pulled
//
// Each tier takes what the ones before left. Where source shards are disjoint every element has one candidate shard and
// the tiers are a look-up; where they overlap, boxes are subtracted.
//
// Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/plan/sources.h"

namespace tenplex {

/// What does not change from group to group. Borrows the input.
struct PlanContext {
  explicit PlanContext(const PlanInput& plan_input);

  const PlanInput& input;
  std::vector<DeviceId> source_rank_at_slot;  ///< −1: none
  /// The source rank that runs on the same device as a target rank, or −1.
  DeviceId source_rank_of(DeviceId target_rank) const {
    return source_rank_at_slot[static_cast<std::size_t>(input.placement.target_slots[target_rank.index()])];
  }
};

class GroupPlanner {
 public:
  /// Borrows all for its life. `name` is the tensor's, for errors.
  GroupPlanner(const PlanContext& context, const CutPair& cut, std::string_view name);

  /// `needed`: (target rank, target shard) of the worker, ascending.
  /// Errors: invalid_argument naming the tensor and the first box that no source shard holds, or a cut inside a byte.
  Result<PackedCopies> plan(WorkerId worker, std::span<const std::pair<Holder, std::int64_t>> needed);

 private:
  struct Pulled {
    Box box;
    std::uint32_t entry;  // of the target
    Holder holder;
  };

  Result<void> plan_shard(std::int64_t shard);
  Result<void> keep(std::int64_t shard, std::int64_t twin);
  bool one_source_has(std::int64_t shard);
  Result<void> fill_disjoint();
  Result<void> fill_overlapping();
  Result<void> take_held(bool own_device, std::vector<Box>* rest);
  Result<void> take_pulled(std::vector<Box>* rest);
  Result<void> pull(std::uint32_t source_entry, const Box& box);
  const Holder* local_holder(std::int64_t source_shard) const;
  Result<void> add_source(Route route, Holder source, std::uint32_t source_entry, const Box& box,
                          std::span<const Holder> by_tensor);
  Result<void> add(Route route, Holder source, std::span<const Holder> by_tensor);
  void set_piece(const ShardList& shards, std::uint32_t entry, const Box& box, Piece* piece) const;
  Error missing() const;

  const PlanContext& context_;
  const CutPair& cut_;
  SourceChooser chooser_;
  std::string_view name_;
  // Of the worker at hand.
  PackedCopies copies_;
  std::vector<Pulled> pulled_;
  bool may_repeat_ = false;  // an element may be needed twice on the worker
  // Of the sub-tensor and piece at hand.
  Holder device_;
  DeviceId source_rank_;  // on the same device, or −1
  std::uint32_t entry_ = 0;
  CopyClass copy_class_ = CopyClass::kMerge;
  std::vector<std::uint32_t> hits_;
  std::vector<Slice> slices_;
  Copy copy_;
};

}  // namespace tenplex
