// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/named_nodes.h"

namespace tenplex::deepspeed {

NodeId add_dict_of(const std::vector<NamedNode>& entries, StateGraph* graph) {
  std::vector<NodeId> items;
  items.reserve(2 * entries.size());
  for (const auto& [key, value] : entries) {
    items.push_back(graph->add_string(key));
    items.push_back(value);
  }
  return graph->add_dict(std::move(items));
}

NodeId RankNotes::add_to(StateGraph* graph) const {
  std::vector<NodeId> items;
  items.reserve(2 * of_ranks_.size());
  for (const auto& [rank, entries] : of_ranks_) {
    items.push_back(graph->add_int(rank));
    items.push_back(add_dict_of(entries, graph));
  }
  return graph->add_dict(std::move(items));
}

}  // namespace tenplex::deepspeed
