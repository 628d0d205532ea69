// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Source: torch/distributed/checkpoint/_traverse.py (set_element).
#include <fmt/format.h>

#include "tenplex/formats/state/unflattener.h"

namespace tenplex {

NodeId Unflattener::new_container(bool list) {
  const NodeId node = list ? graph_.add_list({}) : graph_.add_dict({});
  containers_.resize(node + 1, false);
  containers_[node] = true;
  return node;
}

Result<void> Unflattener::place(std::span<const PathStep> path, NodeId leaf) {
  if (path.empty()) return corrupt("a leaf has an empty path");
  if (root_ == kNoNode) root_ = new_container(path[0].is_index);
  NodeId container = root_;
  for (std::size_t step = 0; step < path.size(); ++step) {
    const bool last = step + 1 == path.size();
    TENPLEX_ASSIGN_OR_RETURN(const std::size_t slot, find_slot(container, path[step]));
    const NodeId found = graph_[container].children[slot];
    if (last) {
      if (found != kNoNode) return corrupt("two leaves claim the same place in the tree");
      graph_[container].children[slot] = leaf;
      break;
    }
    NodeId next = found;
    if (found == kNoNode) {
      next = new_container(path[step + 1].is_index);
      graph_[container].children[slot] = next;
    } else if (!is_container(found)) {
      return corrupt("a leaf lies below another leaf");
    }
    container = next;
  }
  return {};
}

// Index into the container's children of the step's value; kNoNode is there until it is filled.
Result<std::size_t> Unflattener::find_slot(NodeId container, const PathStep& step) {
  const bool list = graph_[container].kind == NodeKind::kList;
  if (list != step.is_index) return corrupt("the tree mixes keys and indexes in one container");
  if (!step.is_index) return find_key(container, step.key);
  std::vector<NodeId>& children = graph_[container].children;
  const auto index = static_cast<std::size_t>(step.index);
  const std::size_t fill_limit = kMinFill + kFillPerLeaf * leaf_count_;
  if (step.index < 0 || (index >= children.size() && index - children.size() > fill_limit - filled_))
    return corrupt(fmt::format("list index {} is out of all proportion", step.index));
  if (index >= children.size()) {
    filled_ += index - children.size();
    children.resize(index + 1, kNoNode);
  }
  return index;
}

std::size_t Unflattener::find_key(NodeId container, std::string_view text) {
  const std::uint32_t hash = key_table_.hash(text) ^ (container * 0x9e3779b1U);
  const std::uint32_t known = key_table_.find(hash, [&](std::uint32_t number) {
    const Key& key = keys_[number];
    return key.container == container && graph_[graph_[container].children[key.slot - 1]].text == text;
  });
  if (known != TextTable::kNone) return keys_[known].slot;
  const NodeId key = graph_.add_string(std::string(text));
  std::vector<NodeId>& children = graph_[container].children;
  children.insert(children.end(), {key, kNoNode});
  const std::size_t slot = children.size() - 1;
  key_table_.add(hash, static_cast<std::uint32_t>(keys_.size()));
  keys_.push_back({container, static_cast<std::uint32_t>(slot)});
  return slot;
}

NodeId Unflattener::finish() {
  if (root_ == kNoNode) root_ = new_container(false);
  for (NodeId container = 0; container < containers_.size(); ++container) {
    if (!containers_[container] || graph_[container].kind != NodeKind::kList) continue;
    for (std::size_t item = 0; item < graph_[container].children.size(); ++item) {
      if (graph_[container].children[item] != kNoNode) continue;
      const NodeId none = graph_.add_none();
      graph_[container].children[item] = none;
    }
  }
  return root_;
}

}  // namespace tenplex
