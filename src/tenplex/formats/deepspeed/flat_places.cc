// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/flat_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/checked.h"
#include "tenplex/base/counted.h"
#include "tenplex/formats/deepspeed/expert_names.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

class SlotPlacer {
 public:
  struct Subject {
    std::size_t group = 0;
    std::size_t tensor_rank = 0;
    std::size_t expert_rank = 0;
  };

  /// `ranks` are those that the group is cut over.
  SlotPlacer(std::vector<const RankOptimizer*> ranks, const Subject& subject, const StageSubject& stage,
             CheckpointJoiner* joiner, ParameterGroups* whole)
      : ranks_(std::move(ranks)),
        tensor_rank_(subject.tensor_rank),
        expert_rank_(subject.expert_rank),
        first_(stage.first),
        joiner_(*joiner),
        groups_(stage.groups),
        whole_(*whole),
        group_(subject.group) {}

  Result<void> run() {
    for (const RankOptimizer* rank : ranks_) {
      auto alike = check_alike(*rank);
      if (!alike) return std::move(alike).error().with_context(where(*rank));
    }
    if (tensor_rank_ == 0) TENPLEX_TRY(add_tensors());
    return first_.file.whole_parameters ? place_parts() : place_fragments();
  }

 private:
  const FlatGroup& group_of(const RankOptimizer& rank) const { return rank.file.groups[group_]; }
  std::string where(const RankOptimizer& rank) const {
    return fmt::format("'{}' group {}", joiner_.name(rank.part), group_);
  }
  const LocalPart& local(const Parameter& parameter) const { return parameter.parts[tensor_rank_]; }
  /// In the whole model. Requires: the stage's parameters are among those of the whole.
  std::vector<std::pair<std::string, CheckpointJoiner::Number>>& slots_of(const Parameter& parameter) {
    return whole_.find(parameter.name)->slots;
  }
  std::size_t begin() const { return groups_.first_of(group_); }
  std::size_t end() const { return groups_.first_of(group_ + 1); }

  /// The same slots and steps as on the first rank; the same sizes as on the first with the same part of the model.
  Result<void> check_alike(const RankOptimizer& rank) const {
    const FlatGroup& beside = group_of(*ranks_[0]);
    const FlatGroup& first = group_of(first_);
    const FlatGroup& other = group_of(rank);
    const std::string& first_name = joiner_.name(first_.part);
    if (other.size != beside.size)
      return corrupt(fmt::format("{} elements, in '{}' {}", other.size, joiner_.name(ranks_[0]->part), beside.size));
    if (other.alignment != beside.alignment)
      return corrupt(fmt::format("its alignment paddings are not those in '{}'", joiner_.name(ranks_[0]->part)));
    if (other.slots.size() != first.slots.size() || other.rest.size() != first.rest.size())
      return corrupt(fmt::format("the optimizer's state has other entries than in '{}'", first_name));
    for (std::size_t slot = 0; slot < first.slots.size(); ++slot)
      if (other.slots[slot].first != first.slots[slot].first)
        return corrupt(fmt::format("'{}' stands where '{}' has '{}'", other.slots[slot].first, first_name,
                                   first.slots[slot].first));
    for (std::size_t entry = 0; entry < first.rest.size(); ++entry) {
      TENPLEX_ASSIGN_OR_RETURN(const bool same, same_rest(rank, entry));
      if (!same)
        return corrupt(fmt::format("'{}' differs from that in '{}': one of them is of another iteration",
                                   other.rest[entry].first, first_name));
    }
    return {};
  }

  Result<bool> same_rest(const RankOptimizer& rank, std::size_t entry) const {
    const auto& [first_name, first] = group_of(first_).rest[entry];
    const auto& [other_name, other] = group_of(rank).rest[entry];
    const CheckpointInfo& a = joiner_.stored(first_.part);
    const CheckpointInfo& b = joiner_.stored(rank.part);
    if (first_name != other_name) return false;
    if (!is_tensor(a.state, first) || !is_tensor(b.state, other)) return equal_objects(a.state, first, b.state, other);
    const TensorId one = a.state.view(first).tensor;
    const TensorId two = b.state.view(other).tensor;
    if (a.tensors[one.index()].dtype != b.tensors[two.index()].dtype) return false;
    TENPLEX_ASSIGN_OR_RETURN(const std::string bytes, joiner_.small_bytes(first_.part, one));
    TENPLEX_ASSIGN_OR_RETURN(const std::string other_bytes, joiner_.small_bytes(rank.part, two));
    return bytes == other_bytes;
  }

  Result<void> add_tensors() {
    const FlatGroup& first = group_of(*ranks_[0]);
    const CheckpointInfo& file = joiner_.stored(ranks_[0]->part);
    for (const auto& [slot, flat] : first.slots)
      if (slot == kMasterSlot) return corrupt(fmt::format("group {}: the optimizer has a state '{}'", group_, slot));
    for (std::size_t index = begin(); index < end(); ++index) {
      const Parameter& parameter = groups_.parameters()[index];
      if (parameter.expert_rank != expert_rank_) continue;
      std::vector<std::pair<std::string, CheckpointJoiner::Number>>& slots = slots_of(parameter);
      // An earlier stage has it too; that its entries are the same is checked.
      if (!slots.empty()) continue;
      slots.reserve(1 + first.slots.size());
      const auto add = [&](std::string_view slot, TensorId flat) -> Result<void> {
        TENPLEX_ASSIGN_OR_RETURN(const auto number,
                                 joiner_.add_tensor(parameter.name, file.tensors[flat.index()].dtype, parameter.shape));
        slots.emplace_back(slot, number);
        return {};
      };
      TENPLEX_TRY(add(kMasterSlot, first.master));
      for (const auto& [slot, flat] : first.slots) TENPLEX_TRY(add(slot, flat));
    }
    return {};
  }

  Result<void> add_runs(const Parameter& parameter, std::size_t rank, std::int64_t at, std::int64_t from,
                        std::int64_t elements) {
    if (elements == 0 || parameter.is_spare) return {};
    const FlatGroup& group = group_of(*ranks_[rank]);
    const auto& slots = slots_of(parameter);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      const TensorId flat = slot == 0 ? group.master : group.slots[slot - 1].second;
      auto added = joiner_.add_run(slots[slot].second, ranks_[rank]->device,
                                   {ranks_[rank]->part, flat, at, from, from + elements}, local(parameter));
      if (!added)
        return std::move(added).error().with_context(
            fmt::format("parameter '{}' {}", parameter.name, slots[slot].first));
    }
    return {};
  }

  Result<void> place_fragments() {
    std::vector<std::int64_t> placed(end() - begin(), 0);
    std::int64_t unused = 0;
    std::int64_t padding = group_of(*ranks_[0]).alignment;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const FlatGroup& group = group_of(*ranks_[rank]);
      unused += group.size;
      padding += group.padding;
      for (const Fragment& fragment : group.fragments) {
        const Parameter* parameter = groups_.find(name_of(fragment));
        if (parameter == nullptr || parameter->group != group_)
          return corrupt(
              fmt::format("{}: a fragment of parameter '{}', which 'param_shapes' does not have in this group",
                          where(*ranks_[rank]), fragment.name));
        std::int64_t& done = placed[static_cast<std::size_t>(parameter - groups_.parameters().data()) - begin()];
        if (fragment.elements > volume(local(*parameter).shape) - done)
          return corrupt(fmt::format("{}: parameter '{}' of shape {} has more elements than that", where(*ranks_[rank]),
                                     parameter->name, to_string(local(*parameter).shape)));
        TENPLEX_TRY(add_runs(*parameter, rank, fragment.start, done, fragment.elements));
        done += fragment.elements;
        unused -= fragment.elements;
      }
    }
    for (std::size_t index = begin(); index < end(); ++index) {
      const Parameter& parameter = groups_.parameters()[index];
      if (parameter.expert_rank != expert_rank_) continue;
      if (const std::int64_t found = placed[index - begin()]; found != volume(local(parameter).shape))
        return corrupt(fmt::format("parameter '{}' of shape {}: group {} of all ranks{} has {} of its {} elements",
                                   parameter.name, to_string(local(parameter).shape), group_, of_tensor_rank(), found,
                                   volume(local(parameter).shape)));
    }
    if (unused == padding) return {};
    return corrupt(
        fmt::format("group {}{}: {} elements of its flat tensors belong to no parameter, and its paddings add up "
                    "to {}",
                    group_, of_tensor_rank(), unused, padding));
  }

  Result<void> place_parts() {
    const auto ranks = static_cast<std::int64_t>(ranks_.size());
    std::int64_t at = 0;
    for (std::size_t index = begin(); index < end(); ++index) {
      const Parameter& parameter = groups_.parameters()[index];
      if (parameter.expert_rank != expert_rank_) continue;
      const std::int64_t elements = volume(local(parameter).shape);
      const std::int64_t part = ceil_div(elements, ranks);
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        const std::int64_t from = std::min(elements, static_cast<std::int64_t>(rank) * part);
        auto added = add_runs(parameter, rank, at, from, std::min(part, elements - from));
        if (!added) return std::move(added).error().with_context(where(*ranks_[rank]));
      }
      const auto next = checked_add(at, part);
      if (!next) return corrupt(fmt::format("group {}: its parameters are too large", group_));
      at = *next;
    }
    for (const RankOptimizer* rank : ranks_)
      if (group_of(*rank).size != at)
        return corrupt(fmt::format("{}: {} elements, and its parameters take {} on each of {} ranks", where(*rank),
                                   group_of(*rank).size, at, ranks));
    return {};
  }

  std::string of_tensor_rank() const {
    if (expert_rank_ > 0) return fmt::format(" of expert rank {}", expert_rank_);
    return tensor_rank_ == 0 ? std::string() : fmt::format(" of tensor rank {}", tensor_rank_);
  }

  /// In the whole model.
  std::string name_of(const Fragment& fragment) const {
    const auto expert = parse_expert_name(fragment.name);
    if (!expert) return fragment.name;
    const std::int64_t here = groups_.experts_per_rank(expert->layer);
    return expert->with(expert->expert + here * static_cast<std::int64_t>(expert_rank_));
  }

  std::vector<const RankOptimizer*> ranks_;
  std::size_t tensor_rank_;
  std::size_t expert_rank_;
  const RankOptimizer& first_;
  CheckpointJoiner& joiner_;
  const ParameterGroups& groups_;
  ParameterGroups& whole_;
  std::size_t group_;
};

/// The files fit each other and the groups in number.
Result<void> check_files(const std::vector<RankOptimizer>& ranks, const RankOptimizer& first,
                         const CheckpointJoiner& joiner, const ParameterGroups& groups) {
  for (const RankOptimizer& rank : ranks) {
    if (rank.file.groups.size() != groups.group_count())
      return corrupt(fmt::format("'{}': {} groups of parameters, and 'param_shapes' has {}", joiner.name(rank.part),
                                 rank.file.groups.size(), groups.group_count()));
    if (rank.file.whole_parameters != first.file.whole_parameters)
      return corrupt(
          fmt::format("'{}' is of another ZeRO stage than '{}'", joiner.name(rank.part), joiner.name(first.part)));
  }
  return {};
}

/// How many expert parallel ranks share the group; 1 for what is of no experts.
Result<std::size_t> expert_ranks_of(std::size_t group, const std::vector<RankOptimizer>& ranks,
                                    const CheckpointJoiner& joiner, const ParameterGroups& groups) {
  std::size_t expert_ranks = 1;
  for (std::size_t index = groups.first_of(group); index < groups.first_of(group + 1); ++index)
    expert_ranks = std::max(expert_ranks, groups.parameters()[index].expert_rank + 1);
  for (const RankOptimizer& rank : ranks) {
    const std::int64_t count = rank.file.groups[group].ranks;
    if (count * static_cast<std::int64_t>(expert_ranks) != static_cast<std::int64_t>(ranks.size()))
      return corrupt(fmt::format("'{}' group {}: 'partition_count' is {}, and it is on {} files with {} of experts",
                                 joiner.name(rank.part), group, count, ranks.size(), counted(expert_ranks, "part")));
  }
  return expert_ranks;
}

}  // namespace

Result<void> place_slots(std::span<const std::vector<RankOptimizer>> ranks, const StageSubject& stage,
                         CheckpointJoiner* joiner, ParameterGroups* whole) {
  for (std::size_t tensor_rank = 0; tensor_rank < ranks.size(); ++tensor_rank) {
    const std::vector<RankOptimizer>& files = ranks[tensor_rank];
    TENPLEX_TRY(check_files(files, stage.first, *joiner, stage.groups));
    for (std::size_t group = 0; group < stage.groups.group_count(); ++group) {
      TENPLEX_ASSIGN_OR_RETURN(const std::size_t experts, expert_ranks_of(group, files, *joiner, stage.groups));
      for (std::size_t expert = 0; expert < experts; ++expert) {
        const std::size_t count = files.size() / experts;
        std::vector<const RankOptimizer*> some;
        some.reserve(count);
        for (std::size_t rank = 0; rank < count; ++rank) {
          const bool expert_first = stage.order == ExpertOrder::kExpertFirst;
          some.push_back(&files[expert_first ? rank * experts + expert : expert * count + rank]);
        }
        TENPLEX_TRY(SlotPlacer(std::move(some), {group, tensor_rank, expert}, stage, joiner, whole).run());
      }
    }
  }
  return {};
}

}  // namespace tenplex::deepspeed
