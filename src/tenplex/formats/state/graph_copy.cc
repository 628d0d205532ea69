// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/graph_copy.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace tenplex {

NodeId copy_reachable(const StateGraph& from, NodeId node, StateGraph* to,
                      const std::function<TensorView(const TensorView&)>& view) {
  const auto base = static_cast<NodeId>(to->size());
  std::unordered_map<NodeId, NodeId> copies{{node, base}};
  std::vector<NodeId> order{node};
  for (std::size_t next = 0; next < order.size(); ++next)
    from.for_each_edge(order[next], [&](NodeId edge) {
      if (edge != kNoNode && copies.emplace(edge, base + static_cast<NodeId>(order.size())).second)
        order.push_back(edge);
    });
  const auto copy_of = [&](NodeId& id) {
    if (id != kNoNode) id = copies.at(id);
  };
  for (const NodeId id : order) {
    const NodeKind kind = from[id].kind;
    NodeId copy = kNoNode;
    if (kind == NodeKind::kTensor || kind == NodeKind::kStorage) {
      copy = to->add_tensor(view(from.view(id)));
      (*to)[copy].kind = kind;
    } else if (kind == NodeKind::kObject) {
      copy = to->add_object(from.object(id));
    } else {
      copy = to->add(from[id]);
    }
    to->for_each_edge(copy, copy_of);
  }
  return base;
}

}  // namespace tenplex
