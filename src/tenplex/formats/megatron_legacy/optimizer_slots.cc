// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/optimizer_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "tenplex/base/counted.h"
#include "tenplex/formats/megatron_legacy/optimizer_groups.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron_legacy {
namespace {

class SlotFinder {
 public:
  SlotFinder(const CheckpointInfo& file, std::span<const OwnParameter> parameters)
      : file_(file), graph_(file.state), parameters_(parameters), used_(parameters.size(), false) {}

  Result<void> add(NodeId optimizer) {
    const OptimizerParts parts = parts_of_optimizer(graph_, optimizer);
    const auto groups = list_items(graph_, parts.groups);
    if (!groups) return unsupported("the optimizer has no 'param_groups', which say how its parameters are ordered");
    for (std::size_t group = 0; group < groups->size(); ++group) {
      const auto context = [&] { return fmt::format("group {} of the optimizer", group); };
      auto members = members_of((*groups)[group]);
      if (!members) return std::move(members).error().with_context(context());
      auto added = add_group((*groups)[group], *members, parts.state);
      if (!added) return std::move(added).error().with_context(context());
      auto masters = add_masters(parts.masters, group, *members);
      if (!masters) return std::move(masters).error().with_context(context());
    }
    return {};
  }

  Result<OptimizerSlots> finish() && {
    for (std::size_t parameter = 0; parameter < parameters_.size(); ++parameter)
      if (!used_[parameter])
        return unsupported(
            fmt::format("parameter '{}' is in no group of the optimizer: the order of its parameters is not known",
                        parameters_[parameter].name));
    return std::move(found_);
  }

 private:
  const Dims& shape(TensorId tensor) const { return file_.tensors[tensor.index()].shape; }

  // The parameters that a group of this kind has, in the model's order.
  Result<std::vector<std::size_t>> members_of(NodeId group) {
    TENPLEX_ASSIGN_OR_RETURN(const GroupKind kind, kind_of_group(graph_, group));
    std::vector<std::size_t> members;
    for (std::size_t parameter = 0; parameter < parameters_.size(); ++parameter) {
      const OwnParameter& own = parameters_[parameter];
      const bool fits = kind_of_parameter(own.name, shape(own.stored), own.is_expert) == kind;
      if (fits && !used_[parameter]) members.push_back(parameter);
    }
    return members;
  }

  Result<void> add_group(NodeId group, const std::vector<std::size_t>& members, NodeId state) {
    const auto numbers = list_items(graph_, find_item(graph_, group, "params"));
    if (!numbers) return corrupt("it has no list 'params'");
    if (numbers->size() != members.size())
      return unsupported(fmt::format("it has {}, and the model has {} of its kind: the order is not known",
                                     counted(numbers->size(), "parameter"), members.size()));
    for (std::size_t at = 0; at < members.size(); ++at) {
      const auto number = integer_of(graph_, (*numbers)[at]);
      if (!number) return corrupt("a parameter has no number");
      used_[members[at]] = true;
      TENPLEX_TRY(add_state(find_item(graph_, state, *number), members[at]));
    }
    return {};
  }

  Result<void> add_state(NodeId slots, std::size_t parameter) {
    const auto items = mapping_items(graph_, slots);
    if (!items) return {};  // before the first step
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto slot = text_of(graph_, (*items)[at]);
      const NodeId value = (*items)[at + 1];
      if (!slot) return corrupt("a slot has no name");
      if (!is_tensor(graph_, value)) {
        if (is_none(graph_, value)) continue;
        if (const auto step = integer_of(graph_, value); step && *slot == "step") {
          found_.step_numbers.push_back(*step);
          continue;
        }
        return unsupported(fmt::format("slot '{}' of '{}' is no tensor", *slot, parameters_[parameter].name));
      }
      const TensorId tensor = graph_.view(value).tensor;
      if (*slot == "step" && shape(tensor).rank() == 0) {
        found_.steps.push_back(tensor);
        continue;
      }
      TENPLEX_TRY(add_slot(std::string(*slot), tensor, parameter));
    }
    return {};
  }

  Result<void> add_slot(std::string slot, TensorId tensor, std::size_t parameter) {
    const OwnParameter& own = parameters_[parameter];
    if (shape(tensor) != shape(own.stored))
      return unsupported(
          fmt::format("'{}' of what should be '{}' has shape {}, and the parameter {}: the order is not the model's",
                      slot, own.name, to_string(shape(tensor)), to_string(shape(own.stored))));
    found_.slots.push_back({parameter, std::move(slot), tensor});
    return {};
  }

  Result<void> add_masters(NodeId masters, std::size_t group, const std::vector<std::size_t>& members) {
    if (masters == kNoNode) return {};
    const auto lists = list_items(graph_, masters);
    const auto list = lists && group < lists->size() ? list_items(graph_, (*lists)[group]) : std::nullopt;
    if (!list) return corrupt("the float32 copies of its parameters are missing");
    std::size_t next = 0;
    for (const std::size_t parameter : members) {
      if (!has_master(file_.tensors[parameters_[parameter].stored.index()].dtype)) continue;
      if (next == list->size() || !is_tensor(graph_, (*list)[next]))
        return corrupt(fmt::format("it has {} of parameters, too few", counted(next, "float32 copy")));
      TENPLEX_TRY(add_slot(std::string(kMasterSlot), graph_.view((*list)[next++]).tensor, parameter));
    }
    if (next != list->size())
      return corrupt(fmt::format("it has {} float32 copies for {}", list->size(), counted(next, "parameter")));
    return {};
  }

  const CheckpointInfo& file_;
  const StateGraph& graph_;
  std::span<const OwnParameter> parameters_;
  std::vector<bool> used_;
  OptimizerSlots found_;
};

}  // namespace

Result<OptimizerSlots> find_optimizer_slots(const CheckpointInfo& file, NodeId optimizer,
                                            std::span<const OwnParameter> parameters) {
  SlotFinder finder(file, parameters);
  for (const NodeId one : optimizers_of(file.state, optimizer)) TENPLEX_TRY(finder.add(one));
  return std::move(finder).finish();
}

void remove_optimizer_slots(StateGraph* graph, NodeId optimizer) {
  for (const NodeId one : optimizers_of(*graph, optimizer)) {
    const OptimizerParts parts = parts_of_optimizer(*graph, one);
    remove_item(*graph, parts.torch, "state");
    for (const std::string_view key : kMasterKeys) remove_item(*graph, one, key);
    const auto groups = list_items(*graph, parts.groups);
    const std::vector<NodeId> copies(groups->begin(), groups->end());
    for (const NodeId group : copies) remove_item(*graph, group, "params");
  }
}

}  // namespace tenplex::megatron_legacy
