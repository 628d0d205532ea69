// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Unflattener: nested dicts and lists from leaves, as DCP's unflatten_state_dict: a text step makes a dict, an index
// step a list, missing list items are None. Leaves come one at a time, so that their paths need not all be there at
// once.
//
//   Unflattener unflattener(graph, leaf_count);
//   TENPLEX_TRY(unflattener.place(path, node));   // for every leaf, in the order of the tree
//   graph.root = unflattener.finish();
//
// Resource; borrows the graph, to which others may add nodes in between. Cost: about 22 B per key until it goes, plus
// the nodes themselves. Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/base/text_table.h"
#include "tenplex/formats/state/leaf_list.h"

namespace tenplex {

class Unflattener {
 public:
  /// `leaf_count` bounds how long lists may get beyond what is placed in them.
  Unflattener(StateGraph& graph, std::size_t leaf_count) : graph_(graph), leaf_count_(leaf_count) {}

  /// Errors: corrupt if two leaves claim one place, a leaf lies below another, or list indexes are absurd.
  Result<void> place(std::span<const PathStep> path, NodeId leaf);

  /// Fills the holes of lists and returns the root, a dict or (all first steps are indexes) a list. Called once, last.
  NodeId finish();

 private:
  static constexpr std::size_t kMinFill = 65536;
  static constexpr std::size_t kFillPerLeaf = 16;

  struct Key {
    NodeId container;
    std::uint32_t slot;  // of the value, in the container's children; the key is just before
  };

  NodeId new_container(bool list);
  bool is_container(NodeId node) const { return node < containers_.size() && containers_[node]; }
  Result<std::size_t> find_slot(NodeId container, const PathStep& step);
  std::size_t find_key(NodeId container, std::string_view text);

  StateGraph& graph_;
  std::size_t leaf_count_;
  std::size_t filled_ = 0;
  NodeId root_ = kNoNode;
  std::vector<bool> containers_;  // by node: made here
  TextTable key_table_;           // numbers in keys_, by text and container
  PagedList<Key> keys_;
};

}  // namespace tenplex
