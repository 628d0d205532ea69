// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/target_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "tenplex/base/decimal.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::string_view kCommonKey = "common";
constexpr std::string_view kRandomKeys = "rng_state/shard_";
constexpr std::string_view kSlotKeys = "optimizer.state.";
constexpr std::string_view kExtraMark = "._extra_state/shard_";
constexpr std::string_view kExpertModules = "mlp.experts.experts.";

class StateSorter {
 public:
  StateSorter(const CheckpointInfo& source, const Collection& target)
      : graph_(source.state), target_(target), inner_(target.tensors().size(), false) {}

  Result<TargetState> run() {
    TENPLEX_TRY(sort_entries());
    TENPLEX_TRY(check_objects());
    TENPLEX_TRY(sort_tensors());
    TENPLEX_TRY(add_slots());
    std::sort(state_.model.begin(), state_.model.end(), [](const auto& one, const auto& other) {
      return std::tie(one.place, one.tensor) < std::tie(other.place, other.tensor);
    });
    TENPLEX_TRY(check_order());
    return std::move(state_);
  }

 private:
  std::span<const TensorInfo> tensors() const { return target_.tensors(); }

  Result<void> sort_entries() {
    const auto items = mapping_items(graph_, graph_.root);
    if (!items) return {};
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto key = text_of(graph_, (*items)[at]);
      const NodeId value = (*items)[at + 1];
      if (!key || is_tensor(graph_, value)) continue;
      if (*key == kCommonKey) {
        state_.common = value;
      } else if (key->starts_with(kRandomKeys)) {
        state_.random.emplace(*key, value);
      } else if (key->find(kExtraMark) != std::string_view::npos) {
        TENPLEX_TRY(add_object(*key, value));
      } else {
        continue;
      }
      placed_.emplace_back(*key);
      note_inner(value);
    }
    return {};
  }

  // Tensors in objects and in `common` go where these go.
  void note_inner(NodeId root) {
    std::vector<NodeId> open{root};
    std::vector<bool> seen(graph_.size(), false);
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      if (node == kNoNode || seen[node]) continue;
      seen[node] = true;
      const NodeKind kind = graph_[node].kind;
      if (kind == NodeKind::kTensor || kind == NodeKind::kStorage) {
        const TensorId tensor = graph_.view(node).tensor;
        if (tensor.index() < inner_.size()) inner_[tensor.index()] = true;
        continue;
      }
      graph_.for_each_edge(node, [&](NodeId edge) { open.push_back(edge); });
    }
  }

  // "…mlp.experts.experts.linear_fc1._extra_state/shard_3_8" is that of expert 3.
  Result<void> add_object(std::string_view key, NodeId node) {
    const std::size_t slash = key.rfind('/');
    std::string name(key.substr(0, slash));
    const std::string_view shard = key.substr(slash + std::string_view("/shard_").size());
    const std::size_t modules = name.find(kExpertModules);
    if (modules != std::string::npos) {
      const auto expert = decimal_of(shard.substr(0, std::min(shard.find('_'), shard.size())));
      if (!expert || !megatron::split_numbers(name).layer)
        return unsupported(
            fmt::format("object '{}' is of several layers or experts: --map megatron-modules takes them "
                        "apart",
                        key));
      name.replace(modules, kExpertModules.size(), fmt::format("mlp.experts.local_experts.{}.", *expert));
    } else if (shard != "0_1" || (name.starts_with("decoder.layers.") && !megatron::split_numbers(name).layer)) {
      return unsupported(
          fmt::format("object '{}' is of several layers: a legacy checkpoint has one of each layer", key));
    }
    state_.objects.push_back({std::move(name), node});
    return {};
  }

  Result<void> check_objects() const {
    if (graph_.root == kNoNode) return {};
    TENPLEX_ASSIGN_OR_RETURN(const LeafList leaves, flatten(graph_));
    const LeafList objects = leaves.objects();
    for (std::size_t leaf = 0; leaf < objects.size(); ++leaf) {
      const std::vector<PathStep> path = objects.path(leaf);
      if (!path.empty() && std::find(placed_.begin(), placed_.end(), path[0].key) != placed_.end()) continue;
      return unsupported(
          fmt::format("object '{}' has no place in a legacy Megatron checkpoint; --only tensors leaves out what is no "
                      "tensor",
                      objects.name(leaf)));
    }
    return {};
  }

  Result<void> sort_tensors() {
    for (std::size_t index = 0; index < tensors().size(); ++index) {
      const std::string& name = tensors()[index].name;
      if (inner_[index]) continue;
      if (const auto stored = target_.alias_of(TensorId(index)))
        return unsupported(
            fmt::format("the target layout ties '{}' to '{}'; a legacy checkpoint ties word embeddings "
                        "alone, and does it itself",
                        name, tensors()[stored->index()].name));
      if (std::string_view(name).starts_with(kSlotKeys)) {
        state_.has_slots = true;
        continue;
      }
      const megatron::NumberedName numbered = megatron::split_numbers(name);
      const bool stacked = !numbered.layer && name.starts_with("decoder.layers.");
      if (stacked || name.find(kExpertModules) != std::string::npos)
        return unsupported(
            fmt::format("tensor '{}' is of several layers or experts: a legacy checkpoint has one of each module; see "
                        "--map megatron-modules",
                        name));
      model_of_name_[name] = state_.model.size();
      state_.model.push_back({TensorId(index), numbered, megatron::place_in_model(numbered), {}});
    }
    return {};
  }

  Result<void> add_slots() {
    for (std::size_t index = 0; index < tensors().size(); ++index) {
      const std::string& name = tensors()[index].name;
      if (inner_[index] || !std::string_view(name).starts_with(kSlotKeys)) continue;
      const std::string_view rest = std::string_view(name).substr(kSlotKeys.size());
      const std::size_t dot = std::min(rest.find('.'), rest.size());
      const auto found = model_of_name_.find(rest.substr(std::min(dot + 1, rest.size())));
      if (found == model_of_name_.end())
        return corrupt(fmt::format("'{}' is a slot of a parameter that the model has not", name));
      TargetParameter& parameter = state_.model[found->second];
      if (tensors()[index].shape != tensors()[parameter.tensor.index()].shape)
        return corrupt(fmt::format("'{}' has shape {}, and its parameter {}", name, to_string(tensors()[index].shape),
                                   to_string(tensors()[parameter.tensor.index()].shape)));
      parameter.slots.emplace_back(rest.substr(0, dot), TensorId(index));
    }
    for (TargetParameter& parameter : state_.model) std::sort(parameter.slots.begin(), parameter.slots.end());
    return {};
  }

  // The optimizer finds its parameters by their order.
  Result<void> check_order() const {
    for (const TargetParameter& parameter : state_.model)
      if (!parameter.place.known && !parameter.slots.empty())
        return unsupported(fmt::format(
            "the optimizer numbers parameters in the order of the model, and where in it '{}' stands is not "
            "known; --only model writes the model alone",
            tensors()[parameter.tensor.index()].name));
    return {};
  }

  const StateGraph& graph_;
  const Collection& target_;
  std::vector<bool> inner_;          // by tensor
  std::vector<std::string> placed_;  // keys of the root
  std::map<std::string, std::size_t, std::less<>> model_of_name_;
  TargetState state_;
};

}  // namespace

Result<TargetState> sort_state(const CheckpointInfo& source, const Collection& target) {
  return StateSorter(source, target).run();
}

}  // namespace tenplex::megatron_legacy
