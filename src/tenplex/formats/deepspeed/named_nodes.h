// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Names and nodes of a state tree on their way to become a dict, and what single ranks say:
//
//   {3: {"model_states": {"rng": …}}}      common.ranks
//
// Value types. Threads: as any value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

using NamedNode = std::pair<std::string, NodeId>;

/// True for what the tree has another use for: a parameter of that name is refused.
inline bool is_own_name(std::string_view name) { return name == "common" || name.starts_with("optimizer.state."); }

/// Adds a dict of them, in their order.
NodeId add_dict_of(const std::vector<NamedNode>& entries, StateGraph* graph);

class RankNotes {
 public:
  void add(std::int64_t rank, std::string key, NodeId node) { of_ranks_[rank].emplace_back(std::move(key), node); }
  bool empty() const { return of_ranks_.empty(); }

  /// Adds a dict of ranks.
  NodeId add_to(StateGraph* graph) const;

 private:
  std::map<std::int64_t, std::vector<NamedNode>> of_ranks_;
};

}  // namespace tenplex::deepspeed
