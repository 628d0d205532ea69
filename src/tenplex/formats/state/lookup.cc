// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/lookup.h"

#include <string>

namespace tenplex {
namespace {

template <typename Matches>
NodeId find_if(const StateGraph& graph, NodeId dict, Matches matches) {
  const auto items = mapping_items(graph, dict);
  if (!items) return kNoNode;
  for (std::size_t at = 0; at + 1 < items->size(); at += 2)
    if (matches(graph[(*items)[at]])) return (*items)[at + 1];
  return kNoNode;
}

}  // namespace

NodeId find_item(const StateGraph& graph, NodeId dict, std::string_view key) {
  return find_if(graph, dict, [&](const Node& node) { return node.kind == NodeKind::kString && node.text == key; });
}

NodeId find_item(const StateGraph& graph, NodeId dict, std::int64_t key) {
  return find_if(graph, dict, [&](const Node& node) { return node.kind == NodeKind::kInt && node.integer == key; });
}

bool is_dict(const StateGraph& graph, NodeId node) { return mapping_items(graph, node).has_value(); }
bool is_list(const StateGraph& graph, NodeId node) { return list_items(graph, node).has_value(); }
bool is_none(const StateGraph& graph, NodeId node) {
  return node < graph.size() && graph[node].kind == NodeKind::kNone;
}
bool is_tensor(const StateGraph& graph, NodeId node) {
  return node < graph.size() && graph[node].kind == NodeKind::kTensor;
}

std::optional<std::int64_t> integer_of(const StateGraph& graph, NodeId node) {
  if (node >= graph.size() || graph[node].kind != NodeKind::kInt) return std::nullopt;
  return graph[node].integer;
}

std::optional<std::string_view> text_of(const StateGraph& graph, NodeId node) {
  if (node >= graph.size() || graph[node].kind != NodeKind::kString) return std::nullopt;
  return std::string_view(graph[node].text);
}

std::optional<Dims> dims_of(const StateGraph& graph, NodeId node) {
  if (graph.is_instance(node, "torch", "Size")) {
    const NodeId arguments = graph.object(node).arguments;
    if (arguments >= graph.size() || graph[arguments].children.size() != 1) return std::nullopt;
    node = graph[arguments].children[0];
  }
  if (node >= graph.size() || (graph[node].kind != NodeKind::kTuple && graph[node].kind != NodeKind::kList))
    return std::nullopt;
  const std::vector<NodeId>& items = graph[node].children;
  if (items.size() > static_cast<std::size_t>(kMaxRank)) return std::nullopt;
  Dims dims;
  for (const NodeId item : items) {
    const auto value = integer_of(graph, item);
    if (!value || *value < 0) return std::nullopt;
    dims.push_back(*value);
  }
  return dims;
}

std::vector<NodeId>& items_of(StateGraph& graph, NodeId dict) {
  return graph[dict].kind == NodeKind::kDict ? graph[dict].children : graph.object(dict).dict_items;
}

void remove_item(StateGraph& graph, NodeId dict, std::string_view key) {
  std::vector<NodeId>& items = items_of(graph, dict);
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    if (text_of(graph, items[at]) != key) continue;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at), items.begin() + static_cast<std::ptrdiff_t>(at) + 2);
    return;
  }
}

void set_item(StateGraph& graph, NodeId dict, std::string_view key, NodeId value) {
  std::vector<NodeId>& items = items_of(graph, dict);
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    if (text_of(graph, items[at]) != key) continue;
    items[at + 1] = value;
    return;
  }
  const NodeId name = graph.add_string(std::string(key));
  std::vector<NodeId>& now = items_of(graph, dict);  // adding a node may have moved them
  now.push_back(name);
  now.push_back(value);
}

}  // namespace tenplex
