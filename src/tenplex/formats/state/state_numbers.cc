// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_numbers.h"

#include "tenplex/formats/state/lookup.h"

namespace tenplex {
namespace {

/// Where a node holds things by key.
NodeId fields_of(const StateGraph& graph, NodeId node) {
  const bool is_plain_object = graph[node].kind == NodeKind::kObject && !is_dict(graph, node);
  return is_plain_object ? graph.object(node).state : node;
}

}  // namespace

std::optional<NodeId> node_at(const StateGraph& graph, std::span<const std::string_view> keys) {
  if (graph.root == kNoNode) return std::nullopt;
  NodeId node = graph.root;
  for (const std::string_view key : keys) {
    node = find_item(graph, fields_of(graph, node), key);
    if (node == kNoNode) return std::nullopt;
  }
  return node;
}

std::optional<std::int64_t> number_at(const StateGraph& graph, std::span<const std::string_view> keys) {
  const auto node = node_at(graph, keys);
  if (!node) return std::nullopt;
  const Node& found = graph[*node];
  if (found.kind == NodeKind::kInt) return found.integer;
  if (found.kind == NodeKind::kBool) return found.boolean ? 1 : 0;
  return std::nullopt;
}

}  // namespace tenplex
