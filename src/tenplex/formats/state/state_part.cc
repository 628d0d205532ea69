// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_part.h"

namespace tenplex {
namespace {

bool has_view(NodeKind kind) { return kind == NodeKind::kTensor || kind == NodeKind::kStorage; }

/// Keys and values of a dict or dict subclass, or null.
std::vector<NodeId>* items_of(StateGraph* graph, NodeId dict) {
  if (!mapping_items(*graph, dict)) return nullptr;
  return (*graph)[dict].kind == NodeKind::kDict ? &(*graph)[dict].children : &graph->object(dict).dict_items;
}

template <typename Keeps>
void keep_pairs(std::vector<NodeId>* items, Keeps keeps) {
  std::size_t left = 0;
  for (std::size_t i = 0; i + 1 < items->size(); i += 2) {
    if (!keeps((*items)[i], (*items)[i + 1])) continue;
    (*items)[left++] = (*items)[i];
    (*items)[left++] = (*items)[i + 1];
  }
  items->resize(left);
}

/// Adds node `id` of `from` with the numbers that its parts have now.
void copy_node(const StateGraph& from, NodeId id, std::span<const NodeId> numbers, StateGraph* graph) {
  if (has_view(from[id].kind)) {
    (*graph)[graph->add_tensor(from.view(id))].kind = from[id].kind;
    return;
  }
  const NodeId added = from[id].kind == NodeKind::kObject ? graph->add_object(from.object(id)) : graph->add(from[id]);
  graph->for_each_edge(added, [&](NodeId& edge) {
    if (edge != kNoNode) edge = numbers[edge];
  });
}

}  // namespace

NodeId find_entry(const StateGraph& graph, NodeId dict, std::string_view key) {
  const auto items = mapping_items(graph, dict);
  for (std::size_t i = 0; items && i + 1 < items->size(); i += 2) {
    const Node& node = graph[(*items)[i]];
    if (node.kind == NodeKind::kString && node.text == key) return (*items)[i + 1];
  }
  return kNoNode;
}

void keep_entries(StateGraph* graph, NodeId dict, const std::function<bool(std::string_view key)>& keeps) {
  std::vector<NodeId>* items = items_of(graph, dict);
  if (items == nullptr) return;
  keep_pairs(items,
             [&](NodeId key, NodeId) { return (*graph)[key].kind == NodeKind::kString && keeps((*graph)[key].text); });
}

void keep_tensors(StateGraph* graph) {
  // Dicts are cut where they stand, each once; empty ones may stay, they are no leaves.
  if (items_of(graph, graph->root) == nullptr) graph->root = graph->add_dict({});
  std::vector<bool> seen(graph->size(), false);
  std::vector<NodeId> open{graph->root};
  while (!open.empty()) {
    const NodeId dict = open.back();
    open.pop_back();
    std::vector<NodeId>* items = items_of(graph, dict);
    if (items == nullptr || seen[dict]) continue;
    seen[dict] = true;
    keep_pairs(items, [&](NodeId, NodeId value) {
      if ((*graph)[value].kind == NodeKind::kTensor) return true;
      if (!mapping_items(*graph, value)) return false;
      open.push_back(value);
      return true;
    });
  }
}

StateGraph reachable_part(const StateGraph& graph) {
  std::vector<NodeId> numbers(graph.size(), kNoNode);
  std::vector<NodeId> order;
  const auto visit = [&](NodeId id) {
    if (id == kNoNode || numbers[id] != kNoNode) return;
    numbers[id] = static_cast<NodeId>(order.size());
    order.push_back(id);
  };
  visit(graph.root);
  std::size_t next = 0;
  while (next < order.size()) graph.for_each_edge(order[next++], visit);  // the list grows meanwhile
  StateGraph part;
  for (const NodeId id : order) copy_node(graph, id, numbers, &part);
  part.root = graph.root == kNoNode ? kNoNode : 0;
  return part;
}

std::vector<bool> tensors_in(const StateGraph& graph, std::size_t tensor_count) {
  std::vector<bool> found(tensor_count, false);
  for (NodeId id = 0; id < graph.size(); ++id)
    if (has_view(graph[id].kind)) found[graph.view(id).tensor.index()] = true;
  return found;
}

void renumber_tensors(StateGraph* graph, std::span<const TensorId> numbers) {
  for (NodeId id = 0; id < graph->size(); ++id) {
    if (!has_view((*graph)[id].kind)) continue;
    TensorView view = graph->view(id);
    view.tensor = numbers[view.tensor.index()];
    graph->set_view(id, view);
  }
}

}  // namespace tenplex
