// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Source: torch/distributed/checkpoint/_traverse.py (set_element).
#include <fmt/format.h>

#include <map>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {
namespace {

class Unflattener {
 public:
  Unflattener(StateGraph& graph, std::size_t leaves) : graph_(graph), fill_left_(65536 + 16 * leaves) {}

  Result<NodeId> run(std::span<const StateLeaf> leaves) {
    const bool list = !leaves.empty() && !leaves[0].path.empty() && leaves[0].path[0].is_index;
    const NodeId root = new_container(list);
    for (const StateLeaf& leaf : leaves) TENPLEX_TRY(place(root, leaf).with_context(fmt::format("'{}'", leaf.name)));
    return root;
  }

 private:
  NodeId new_container(bool list) {
    const NodeId node = list ? graph_.add_list({}) : graph_.add_dict({});
    containers_.emplace(node, list);
    return node;
  }

  Result<void> place(NodeId root, const StateLeaf& leaf) {
    if (leaf.path.empty()) return corrupt("a leaf has an empty path");
    NodeId container = root;
    for (std::size_t step = 0; step < leaf.path.size(); ++step) {
      const bool last = step + 1 == leaf.path.size();
      TENPLEX_ASSIGN_OR_RETURN(const std::size_t slot, find_slot(container, leaf.path[step]));
      const NodeId found = graph_[container].children[slot];
      if (last) {
        if (found != kNoNode) return corrupt("two leaves claim the same place in the tree");
        graph_[container].children[slot] = leaf.node;
        break;
      }
      NodeId next = found;
      if (found == kNoNode) {
        next = new_container(leaf.path[step + 1].is_index);
        graph_[container].children[slot] = next;
      } else if (!containers_.contains(found)) {
        return corrupt("a leaf lies below another leaf");
      }
      container = next;
    }
    return {};
  }

  // Index into the container's children of the step's value; kNoNode is there until it is filled.
  Result<std::size_t> find_slot(NodeId container, const PathStep& step) {
    if (containers_.at(container) != step.is_index) return corrupt("the tree mixes keys and indexes in one container");
    std::vector<NodeId>& children = graph_[container].children;
    if (!step.is_index) {
      const auto [found, added] = keys_.try_emplace({container, step.key}, children.size() + 1);
      if (added) {
        const NodeId key = graph_.add_string(step.key);
        graph_[container].children.insert(graph_[container].children.end(), {key, kNoNode});
      }
      return found->second;
    }
    const auto index = static_cast<std::size_t>(step.index);
    if (step.index < 0 || (index >= children.size() && index - children.size() > fill_left_))
      return corrupt(fmt::format("list index {} is out of all proportion", step.index));
    if (index >= children.size()) {
      fill_left_ -= index - children.size();
      children.resize(index + 1, kNoNode);
    }
    return index;
  }

  StateGraph& graph_;
  std::size_t fill_left_;
  std::map<NodeId, bool> containers_;  // made here; true = list
  std::map<std::pair<NodeId, std::string>, std::size_t> keys_;

 public:
  void fill_holes() {
    for (const auto& [container, list] : containers_) {
      if (!list) continue;
      for (std::size_t item = 0; item < graph_[container].children.size(); ++item)
        if (graph_[container].children[item] == kNoNode) {
          const NodeId none = graph_.add_none();
          graph_[container].children[item] = none;
        }
    }
  }
};

}  // namespace

Result<NodeId> unflatten(StateGraph& graph, std::span<const StateLeaf> leaves) {
  Unflattener unflattener(graph, leaves.size());
  TENPLEX_ASSIGN_OR_RETURN(const NodeId root, unflattener.run(leaves));
  unflattener.fill_holes();
  return root;
}

}  // namespace tenplex
