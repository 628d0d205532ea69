// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/legacy_optimizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tenplex/formats/megatron/master_check.h"
#include "tenplex/formats/megatron_legacy/optimizer_groups.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/ptc/mesh.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::int64_t kComparedElements = 16 << 10;  // of a parameter and its float32 copy

/// "optimizer.state.exp_avg.NAME".
std::string slot_name(std::string_view slot, std::string_view parameter) {
  return fmt::format("optimizer.state.{}.{}", slot, parameter);
}

/// True if all groups have that number of steps.
bool groups_say(const StateGraph& graph, NodeId optimizer, std::int64_t steps) {
  const auto groups = list_items(graph, parts_of_optimizer(graph, optimizer).groups);
  return groups && !groups->empty() && std::all_of(groups->begin(), groups->end(), [&](NodeId group) {
           return integer_of(graph, find_item(graph, group, "step")) == steps;
         });
}

std::string flat_file(const RankFile& rank) { return fmt::format("{}/{}", rank.rank->name, kDistributedFile); }

/// Source: Megatron-Core 0.16.1, distributed/distributed_data_parallel.py.
BucketNotes bucket_notes(const CheckpointInfo& first, std::int64_t stages) {
  const auto number = [&first](std::string_view name, std::int64_t otherwise) {
    return argument(first, name).value_or(otherwise);
  };
  BucketNotes notes;
  notes.shares_embeddings = stages > 1 && number("untie_embeddings_and_output_weights", 1) == 0;
  const auto size = [&number](std::string_view name) {
    return std::clamp<std::int64_t>(number(name, 1), 1, kMaxDevices);
  };
  const std::int64_t ranks = size("data_parallel_size") * size("context_parallel_size");
  if (number("overlap_grad_reduce", 0) != 0)
    notes.bucket_size = number("ddp_bucket_size", std::max<std::int64_t>(40'000'000, 1'000'000 * ranks));
  return notes;
}

}  // namespace

Result<std::vector<NamedPart>> LegacyOptimizers::read(std::vector<RankFile>& ranks, std::int64_t stages) {
  const BucketNotes notes = bucket_notes(stored(ranks[0]), stages);
  TENPLEX_TRY(order_parameters(&ranks, notes.shares_embeddings));
  is_distributed_ = std::any_of(ranks.begin(), ranks.end(), [this](const RankFile& rank) {
    return files_.status(fmt::format("{}/{}", folder_, flat_file(rank))).has_value();
  });
  for (const RankFile& rank : ranks) {
    const StateGraph& graph = stored(rank).state;
    const NodeId optimizer = find_item(graph, graph.root, "optimizer");
    if (optimizer == kNoNode || is_none(graph, optimizer)) continue;
    if (is_distributed_) {
      TENPLEX_TRY(add_flat_slots(rank, flat_file(rank), notes));
    } else {
      TENPLEX_TRY(add_slots(rank, optimizer));
    }
  }
  return std::move(parts_);
}

// Those that the user gave are the optimizer's, in that order.
Result<void> LegacyOptimizers::order_parameters(std::vector<RankFile>* ranks, bool shares_embeddings) const {
  if (order_.empty()) return {};
  std::map<std::string_view, std::size_t> place_of;
  for (std::size_t index = 0; index < order_.size(); ++index) place_of.emplace(order_[index], index);
  // The last of several stages has the word embeddings as its head: behind all others, where nothing else is said.
  if (shares_embeddings && place_of.contains(kWordEmbeddings)) place_of.emplace(kHeadWeight, order_.size());
  std::set<std::string_view> used;
  for (RankFile& rank : *ranks) {
    std::vector<OwnParameter>& own = rank.parameters;
    std::erase_if(own, [&](const OwnParameter& parameter) { return !place_of.contains(parameter.name); });
    std::sort(own.begin(), own.end(), [&](const OwnParameter& one, const OwnParameter& other) {
      return std::pair(one.chunk, place_of.at(one.name)) < std::pair(other.chunk, place_of.at(other.name));
    });
    for (const OwnParameter& parameter : own) used.insert(place_of.find(parameter.name)->first);
  }
  for (const std::string& name : order_)
    if (!used.contains(name))
      return unsupported(fmt::format("the given order of parameters has '{}', which the model does not have", name));
  return {};
}

Result<void> LegacyOptimizers::add_slots(const RankFile& rank, NodeId optimizer) {
  auto slots = find_optimizer_slots(stored(rank), optimizer, rank.parameters);
  if (!slots) return std::move(slots).error().with_context(fmt::format("'{}'", joiner_.name(rank.file)));
  for (const OwnSlot& slot : slots->slots)
    parts_.push_back(
        {slot_name(slot.slot, rank.parameters[slot.parameter].name), {rank.rank, rank.file, slot.stored, {}}});
  for (const TensorId step : slots->steps) TENPLEX_TRY(add_step({rank.rank, rank.file, step, {}}));
  for (const std::int64_t step : slots->step_numbers) TENPLEX_TRY(add_step(rank, step));
  return {};
}

Result<void> LegacyOptimizers::add_flat_slots(const RankFile& rank, const std::string& path, const BucketNotes& notes) {
  TENPLEX_ASSIGN_OR_RETURN(const CheckpointJoiner::Part file, joiner_.open(path));
  const auto named = [&path](Error error) { return std::move(error).with_context(fmt::format("'{}'", path)); };
  auto state = read_distributed_state(joiner_.stored(file));
  if (!state) return named(std::move(state).error());
  auto slots = place_flat_slots(*state, stored(rank), rank.parameters, notes);
  if (!slots) return named(std::move(slots).error());
  for (FlatSlot& slot : *slots) {
    const OwnParameter& parameter = rank.parameters[slot.parameter];
    const TensorInfo& info = stored(rank).tensors[parameter.stored.index()];
    const TensorPart part = {rank.rank, file, slot.stored, FlatPlace{slot.begin, info.shape}};
    if (slot.slot == kDistributedMaster) {
      auto checked = check_master(parameter, {rank.rank, rank.file, parameter.stored, {}}, part);
      if (!checked) return named(std::move(checked).error());
    }
    parts_.push_back({slot_name(slot.slot, parameter.name), part});
  }
  return {};
}

Result<void> LegacyOptimizers::check_master(const OwnParameter& parameter, const TensorPart& values,
                                            const TensorPart& masters) const {
  const TensorInfo& info = joiner_.stored(values.file).tensors[values.stored.index()];
  const TensorInfo& copy = joiner_.stored(masters.file).tensors[masters.stored.index()];
  if (!megatron::can_be_compared(info.dtype) || copy.dtype != DType::kFloat32)
    return unsupported(fmt::format("'{}' is {} and its copy {}: they cannot be held against each other", parameter.name,
                                   to_string(info.dtype), to_string(copy.dtype)));
  const std::int64_t count = std::min(volume(info.shape), kComparedElements);
  TENPLEX_ASSIGN_OR_RETURN(const std::string a, part_bytes(joiner_, masters, 0, count * size_bytes(copy.dtype)));
  TENPLEX_ASSIGN_OR_RETURN(const std::string b, part_bytes(joiner_, values, 0, count * size_bytes(info.dtype)));
  const auto unlike = megatron::first_unlike(a, b, info.dtype);
  if (!unlike) return {};
  return unsupported(fmt::format(
      "the optimizer's copy of '{}' is not what the model has, from element {} of its part on: the order of the "
      "parameters is another one, which --param-order can give, or the files are not of one iteration",
      parameter.name, *unlike));
}

Result<void> LegacyOptimizers::add_step(const TensorPart& step) {
  if (!step_) {
    step_ = step;
    return {};
  }
  TENPLEX_ASSIGN_OR_RETURN(const bool same, same_bytes(joiner_, *step_, step, 64));
  if (same) return {};
  return unsupported(fmt::format("'{}': not all parameters are at the same step of the optimizer", step.rank->name));
}

Result<void> LegacyOptimizers::add_step(const RankFile& rank, std::int64_t step) {
  if (!step_number_) step_number_ = step;
  if (*step_number_ == step) return {};
  return unsupported(fmt::format("'{}': not all parameters are at the same step of the optimizer", rank.rank->name));
}

void LegacyOptimizers::tidy(StateGraph* common, NodeId optimizer) const {
  if (!is_distributed_) {
    remove_optimizer_slots(common, optimizer);
    add_common_step(common, optimizer);
    return;
  }
  for (const NodeId one : optimizers_of(*common, optimizer)) {
    if (!is_dict(*common, one)) continue;
    const NodeId text = common->add_string("fully_reshardable");
    set_item(*common, one, "param_state_sharding_type", text);
  }
}

void LegacyOptimizers::add_common_step(StateGraph* common, NodeId optimizer) const {
  NodeId step = kNoNode;
  for (NodeId node = 0; step_ && step == kNoNode && node < common->size(); ++node)
    if ((*common)[node].kind == NodeKind::kTensor && common->view(node).tensor == step_->stored) step = node;
  if (step_number_) step = common->add_int(*step_number_);
  if (step == kNoNode) return;
  const std::vector<NodeId> optimizers = optimizers_of(*common, optimizer);
  if (optimizers.empty() || !is_dict(*common, parts_of_optimizer(*common, optimizers[0]).torch)) return;
  if (step_number_ && groups_say(*common, optimizers[0], *step_number_)) return;
  const NodeId key = common->add_string("common_step");
  const NodeId state = common->add_dict({key, step});
  set_item(*common, parts_of_optimizer(*common, optimizers[0]).torch, "state", state);
}

}  // namespace tenplex::megatron_legacy
