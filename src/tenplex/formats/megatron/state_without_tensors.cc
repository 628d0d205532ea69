// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/state_without_tensors.h"

#include <unordered_map>

#include "tenplex/formats/state/flatten.h"

namespace tenplex::megatron {
namespace {

class TensorTaker {
 public:
  explicit TensorTaker(StateGraph* graph) : graph_(*graph) {}

  /// kNoNode if nothing is left.
  NodeId take(NodeId id, std::size_t depth) {
    const NodeKind kind = graph_[id].kind;
    if (kind == NodeKind::kTensor || kind == NodeKind::kStorage) return kNoNode;
    const auto known = taken_.find(id);
    if (known != taken_.end()) return known->second;
    if (depth == kMaxStateDepth) return id;
    taken_.emplace(id, id);  // until it is known: what leads to itself stays
    NodeId left = id;
    if (const auto items = mapping_items(graph_, id)) {
      left = take_items({items->begin(), items->end()}, true, depth + 1);
    } else if (const auto list = list_items(graph_, id)) {
      left = take_items({list->begin(), list->end()}, false, depth + 1);
    }
    taken_[id] = left;
    return left;
  }

 private:
  // `items` is a copy, as nodes are added meanwhile.
  NodeId take_items(const std::vector<NodeId>& items, bool pairs, std::size_t depth) {
    std::vector<NodeId> left;
    left.reserve(items.size());
    for (std::size_t i = pairs ? 1 : 0; i < items.size(); i += pairs ? 2 : 1) {
      const NodeId value = take(items[i], depth);
      if (value == kNoNode) continue;
      if (pairs) left.push_back(items[i - 1]);
      left.push_back(value);
    }
    if (left.empty() && !items.empty()) return kNoNode;
    return pairs ? graph_.add_dict(std::move(left)) : graph_.add_list(std::move(left));
  }

  StateGraph& graph_;
  std::unordered_map<NodeId, NodeId> taken_;
};

}  // namespace

NodeId without_tensors(StateGraph* graph) {
  if (graph->root == kNoNode) return graph->add_dict({});
  const NodeId left = TensorTaker(graph).take(graph->root, 0);
  if (left == kNoNode) return graph->add_dict({});
  if ((*graph)[left].kind == NodeKind::kDict) return left;
  const NodeId key = graph->add_string("state");
  return graph->add_dict({key, left});
}

}  // namespace tenplex::megatron
