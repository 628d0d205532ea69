// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// LeafList: the leaves of a state tree, packed, because a checkpoint may have millions. Names and paths are made from
// the tree when they are asked for.
//
//   opened containers   0: root   1: (0, "model")   2: (1, "layers")
//   leaves              (node, container, step)     "model.layers.0" = (…, 2, 0)
//
// Value type; borrows the graph it was made from, to which nodes may be added. Cost: 12 B per leaf, 12 B per opened
// container. Threads: as any value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/paged_list.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// A step on the way to a leaf: a dict key as text (an integer key 0 is "0", as in DCP) or a list index.
struct PathStep {
  bool is_index = false;  ///< list index
  std::int64_t index = 0;
  std::string key;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

class LeafList {
 public:
  LeafList() = default;

  std::size_t size() const { return leaves_.size(); }
  bool empty() const { return leaves_.empty(); }
  /// Requires, as all below: leaf < size().
  NodeId node(std::size_t leaf) const { return leaves_[leaf].node; }
  /// The steps to the leaf, joined with '.'. A root that is a leaf itself is "tensor" or "value".
  std::string name(std::size_t leaf) const;
  /// Empty for a root that is a leaf itself.
  std::vector<PathStep> path(std::size_t leaf) const;
  /// The place in Python: "['model']['layers'][0]".
  std::string subscripts(std::size_t leaf) const;

  /// Those that are no tensors, in the same order.
  LeafList objects() const;

 private:
  friend class Flattener;
  static constexpr std::uint32_t kNoContainer = 0xffffffff;

  struct Step {
    std::uint32_t container;  // in containers_, or kNoContainer: the root itself
    std::uint32_t step;       // there: the key's node, or the index
  };
  struct Container {
    Step place;
    bool keyed;
  };
  struct Leaf {
    NodeId node;
    Step place;
  };

  explicit LeafList(const StateGraph& graph) : graph_(&graph) {}
  std::vector<Step> steps(std::size_t leaf) const;

  const StateGraph* graph_ = nullptr;
  PagedList<Container> containers_;
  PagedList<Leaf> leaves_;
};

}  // namespace tenplex
