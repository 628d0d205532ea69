// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_part.h"

#include "tenplex/formats/state/graph_copy.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex {
namespace {

bool has_view(NodeKind kind) { return kind == NodeKind::kTensor || kind == NodeKind::kStorage; }

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

}  // namespace

void keep_entries(StateGraph* graph, NodeId dict, const std::function<bool(std::string_view key)>& keeps) {
  if (!is_dict(*graph, dict)) return;
  keep_pairs(&items_of(*graph, dict),
             [&](NodeId key, NodeId) { return (*graph)[key].kind == NodeKind::kString && keeps((*graph)[key].text); });
}

void keep_tensors(StateGraph* graph) {
  // Dicts are cut where they stand, each once; empty ones may stay, they are no leaves.
  if (!is_dict(*graph, graph->root)) graph->root = graph->add_dict({});
  std::vector<bool> seen(graph->size(), false);
  std::vector<NodeId> open{graph->root};
  while (!open.empty()) {
    const NodeId dict = open.back();
    open.pop_back();
    if (!is_dict(*graph, dict) || seen[dict]) continue;
    seen[dict] = true;
    keep_pairs(&items_of(*graph, dict), [&](NodeId, NodeId value) {
      if ((*graph)[value].kind == NodeKind::kTensor) return true;
      if (!mapping_items(*graph, value)) return false;
      open.push_back(value);
      return true;
    });
  }
}

StateGraph reachable_part(const StateGraph& graph) {
  StateGraph part;
  if (graph.root != kNoNode)
    part.root = copy_reachable(graph, graph.root, &part, [](const TensorView& view) { return view; });
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
