// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/rank_optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/megatron_legacy/optimizer_groups.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::string_view kOptimizerKey = "optimizer";
constexpr std::string_view kStepKey = "common_step";

class OptimizerFiller {
 public:
  OptimizerFiller(StateGraph* tree, NodeId root, std::span<const RankParameter> parameters,
                  const RankOptimizerOptions& options)
      : tree_(*tree), root_(root), parameters_(parameters), options_(options), used_(parameters.size(), false) {}

  Result<void> run() {
    const NodeId optimizer = find_item(tree_, root_, kOptimizerKey);
    if (optimizer == kNoNode || is_none(tree_, optimizer))
      return unsupported(
          "there are slots of an optimizer and no 'common.optimizer' with its groups; --only model writes the model "
          "alone");
    std::vector<NodeId> optimizers = optimizers_of(tree_, optimizer);
    for (const NodeId one : optimizers) {
      const NodeId found = find_item(tree_, parts_of_optimizer(tree_, one).state, kStepKey);
      if (step_ == kNoNode) step_ = found;
    }
    TENPLEX_TRY(regroup(&optimizers));
    for (const NodeId one : optimizers) TENPLEX_TRY(fill(one));
    for (std::size_t index = 0; index < parameters_.size(); ++index)
      if (!used_[index] && !parameters_[index].slots.empty())
        return unsupported(
            fmt::format("parameter '{}' has slots and is in no group of the optimizer; --only model writes the model "
                        "alone",
                        parameters_[index].name));
    const NodeId value = optimizers.size() == 1 ? optimizers[0] : tree_.add_list(optimizers);
    set_item(tree_, root_, kOptimizerKey, value);
    return {};
  }

 private:
  Result<std::vector<NodeId>> groups_of(NodeId optimizer) const {
    const auto groups = list_items(tree_, parts_of_optimizer(tree_, optimizer).groups);
    if (!groups)
      return unsupported(
          "the optimizer has no 'param_groups', which say what parameters it has; --only model writes "
          "the model alone");
    return std::vector<NodeId>(groups->begin(), groups->end());
  }

  Result<GroupKind> kind(std::size_t number, NodeId group) const {
    auto kind = kind_of_group(tree_, group);
    if (kind) return kind;
    return std::move(kind).error().with_context(
        fmt::format("group {} of the optimizer; --only model writes the model alone", number));
  }

  // ── Groups of experts ──
  Result<void> regroup(std::vector<NodeId>* optimizers) {
    bool has_expert_group = false;
    std::vector<NodeId> kept;
    for (const NodeId optimizer : *optimizers) {
      TENPLEX_ASSIGN_OR_RETURN(const std::vector<NodeId> groups, groups_of(optimizer));
      std::vector<NodeId> kept_groups;
      for (std::size_t number = 0; number < groups.size(); ++number) {
        TENPLEX_ASSIGN_OR_RETURN(const GroupKind found, kind(number, groups[number]));
        has_expert_group = has_expert_group || found.experts;
        if (!found.experts || options_.experts_apart) kept_groups.push_back(groups[number]);
      }
      if (kept_groups.empty() && !groups.empty()) continue;
      set_groups(optimizer, std::move(kept_groups));
      kept.push_back(optimizer);
    }
    const bool any_expert = std::any_of(parameters_.begin(), parameters_.end(),
                                        [](const RankParameter& parameter) { return parameter.is_expert; });
    if (kept.empty())
      return unsupported("the optimizer has groups of experts alone, and the target puts them together");
    if (options_.experts_apart && any_expert && !has_expert_group) {
      TENPLEX_ASSIGN_OR_RETURN(const NodeId experts, expert_optimizer(kept[0]));
      kept.push_back(experts);
    }
    *optimizers = std::move(kept);
    return {};
  }

  void set_groups(NodeId optimizer, std::vector<NodeId> groups) {
    const NodeId list = tree_.add_list(std::move(groups));
    set_item(tree_, parts_of_optimizer(tree_, optimizer).torch, "param_groups", list);
  }

  NodeId shallow_copy(NodeId dict) {
    const std::vector<NodeId> items = items_of(tree_, dict);
    return tree_.add_dict(items);
  }

  // As that of the other parameters.
  Result<NodeId> expert_optimizer(NodeId model) {
    const NodeId experts = shallow_copy(model);
    if (find_item(tree_, experts, kOptimizerKey) != kNoNode) {
      const NodeId inner = shallow_copy(find_item(tree_, model, kOptimizerKey));
      set_item(tree_, experts, kOptimizerKey, inner);
    }
    TENPLEX_ASSIGN_OR_RETURN(std::vector<NodeId> groups, groups_of(model));
    for (NodeId& group : groups) {
      group = shallow_copy(group);
      const NodeId yes = tree_.add_bool(true);
      set_item(tree_, group, "is_expert_parallel", yes);
    }
    set_groups(experts, std::move(groups));
    return experts;
  }

  // ── Parameters ──
  Result<void> fill(NodeId optimizer) {
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<NodeId> groups, groups_of(optimizer));
    std::int64_t next = 0;
    std::vector<NodeId> state;
    std::vector<NodeId> masters;
    bool has_masters = false;
    for (std::size_t number = 0; number < groups.size(); ++number) {
      TENPLEX_ASSIGN_OR_RETURN(const GroupKind group_kind, kind(number, groups[number]));
      std::vector<NodeId> params;
      std::vector<NodeId> copies;
      for (std::size_t index = 0; index < parameters_.size(); ++index) {
        const RankParameter& parameter = parameters_[index];
        const bool apart = parameter.is_expert && options_.experts_apart;
        if (used_[index] || parameter.slots.empty() ||
            kind_of_parameter(parameter.name, parameter.shape, apart) != group_kind)
          continue;
        used_[index] = true;
        params.push_back(tree_.add_int(next));
        TENPLEX_TRY(add_parameter(parameter, next++, step_of(groups[number]), &state, &copies));
      }
      has_masters = has_masters || !copies.empty();
      masters.push_back(tree_.add_list(std::move(copies)));
      const NodeId list = tree_.add_list(std::move(params));
      set_item(tree_, groups[number], "params", list);
    }
    const OptimizerParts parts = parts_of_optimizer(tree_, optimizer);
    const NodeId dict = tree_.add_dict(std::move(state));
    set_item(tree_, parts.torch, "state", dict);
    if (parts.torch == optimizer && has_masters)
      return unsupported(
          "there are float32 copies of parameters, and the optimizer's structure is that of one without; "
          "--only model writes the model alone");
    if (parts.torch == optimizer) return {};
    const NodeId lists = tree_.add_list(std::move(masters));
    set_item(tree_, optimizer, kMasterKeys[0], lists);
    return {};
  }

  // The distributed optimizer keeps it per group.
  NodeId step_of(NodeId group) const { return step_ != kNoNode ? step_ : find_item(tree_, group, "step"); }

  Result<void> add_parameter(const RankParameter& parameter, std::int64_t number, NodeId step,
                             std::vector<NodeId>* state, std::vector<NodeId>* copies) {
    std::vector<NodeId> slots;
    NodeId master = kNoNode;
    for (const auto& [slot, tensor] : parameter.slots) {
      if (slot == kMasterSlot) {
        master = tensor;
        continue;
      }
      slots.push_back(tree_.add_string(slot));
      slots.push_back(tensor);
    }
    if (master != kNoNode && !has_master(parameter.dtype))
      return unsupported(
          fmt::format("parameter '{}' of type {} has a float32 copy, for which a legacy checkpoint has no "
                      "place; --only model writes the model alone",
                      parameter.name, to_string(parameter.dtype)));
    if (master != kNoNode) copies->push_back(master);
    if (slots.empty()) return {};
    if (step != kNoNode) {
      slots.push_back(tree_.add_string("step"));
      slots.push_back(is_tensor(tree_, step) ? options_.own_copy(step) : step);
    }
    state->push_back(tree_.add_int(number));
    state->push_back(tree_.add_dict(std::move(slots)));
    return {};
  }

  StateGraph& tree_;
  NodeId root_;
  std::span<const RankParameter> parameters_;
  const RankOptimizerOptions& options_;
  std::vector<bool> used_;
  NodeId step_ = kNoNode;
};

}  // namespace

Result<void> fill_optimizer(StateGraph* tree, NodeId root, std::span<const RankParameter> parameters,
                            const RankOptimizerOptions& options) {
  return OptimizerFiller(tree, root, parameters, options).run();
}

}  // namespace tenplex::megatron_legacy
