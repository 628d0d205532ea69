// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/optimizer_groups.h"

#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron_legacy {
namespace {

std::optional<double> number_of_item(const StateGraph& graph, NodeId node) {
  if (node >= graph.size()) return std::nullopt;
  if (graph[node].kind == NodeKind::kFloat) return graph[node].real;
  if (const auto integer = integer_of(graph, node)) return static_cast<double>(*integer);
  return std::nullopt;
}

bool is_true_item(const StateGraph& graph, NodeId node) {
  return node < graph.size() && graph[node].kind == NodeKind::kBool && graph[node].boolean;
}

}  // namespace

OptimizerParts parts_of_optimizer(const StateGraph& graph, NodeId optimizer) {
  OptimizerParts parts;
  const NodeId inner = find_item(graph, optimizer, "optimizer");
  parts.torch = inner == kNoNode ? optimizer : inner;
  parts.state = find_item(graph, parts.torch, "state");
  parts.groups = find_item(graph, parts.torch, "param_groups");
  for (const std::string_view key : kMasterKeys)
    if (parts.masters == kNoNode) parts.masters = find_item(graph, optimizer, key);
  return parts;
}

std::vector<NodeId> optimizers_of(const StateGraph& graph, NodeId optimizer) {
  if (const auto list = list_items(graph, optimizer)) return {list->begin(), list->end()};
  return {optimizer};
}

Result<GroupKind> kind_of_group(const StateGraph& graph, NodeId group) {
  const auto decay = number_of_item(graph, find_item(graph, group, "wd_mult"));
  if (!decay) return unsupported("it has no 'wd_mult', which says what parameters it has");
  if (is_true_item(graph, find_item(graph, group, "is_decoupled_lr")))
    return unsupported("it has a learning rate of its own for the embeddings (is_decoupled_lr)");
  return GroupKind{*decay != 0.0, is_true_item(graph, find_item(graph, group, "is_expert_parallel"))};
}

GroupKind kind_of_parameter(std::string_view name, const Dims& shape, bool apart) {
  return {shape.rank() != 1 && !name.ends_with(".bias"), apart};
}

bool has_master(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

}  // namespace tenplex::megatron_legacy
