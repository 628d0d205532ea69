// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_numbers.h"

namespace tenplex {
namespace {

/// What a node holds by key, or nothing.
std::optional<NodeId> child_of(const StateGraph& graph, NodeId node, std::string_view key) {
  auto items = mapping_items(graph, node);
  if (!items && graph[node].kind == NodeKind::kObject && graph.object(node).state != kNoNode)
    items = mapping_items(graph, graph.object(node).state);
  if (!items) return std::nullopt;
  for (std::size_t index = 0; index + 1 < items->size(); index += 2) {
    const Node& name = graph[(*items)[index]];
    if (name.kind == NodeKind::kString && name.text == key) return (*items)[index + 1];
  }
  return std::nullopt;
}

}  // namespace

std::optional<NodeId> node_at(const StateGraph& graph, std::span<const std::string_view> keys) {
  if (graph.root == kNoNode) return std::nullopt;
  std::optional<NodeId> node = graph.root;
  for (const std::string_view key : keys) {
    node = child_of(graph, *node, key);
    if (!node) return std::nullopt;
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
