// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <unordered_set>

#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/key_text.h"

namespace tenplex {
namespace {

// Walks below one leaf (or from the root) for tensors that flatten() does not reach. Each node is entered once.
class TensorNamer {
 public:
  explicit TensorNamer(const StateGraph& graph) : graph_(graph), seen_(graph.size(), false) {}

  Result<std::vector<std::pair<NodeId, std::string>>> run() {
    TENPLEX_ASSIGN_OR_RETURN(const LeafList leaves, flatten(graph_));
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const NodeId node = leaves.node(leaf);
      if (!has_data(node) || seen_[node]) continue;
      seen_[node] = true;
      std::string name = leaves.name(leaf);
      names_.insert(name);
      result_.emplace_back(node, std::move(name));
    }
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (seen_[leaves.node(leaf)]) continue;
      name_ = leaves.name(leaf);
      TENPLEX_TRY(name_below(leaves.node(leaf)));
    }
    return std::move(result_);
  }

 private:
  struct Level {
    NodeId node;
    std::vector<std::pair<NodeId, std::string>> edges;  // target, step
    std::size_t next = 0;
    std::size_t name_size = 0;
  };

  bool has_data(NodeId node) const {
    return graph_[node].kind == NodeKind::kTensor || graph_[node].kind == NodeKind::kStorage;
  }

  // At name_.
  Result<void> name_below(NodeId leaf) {
    std::vector<Level> levels;
    open(leaf, levels);
    while (!levels.empty()) {
      Level& level = levels.back();
      name_.resize(level.name_size);
      if (level.next == level.edges.size()) {
        levels.pop_back();
        continue;
      }
      const auto& [target, step] = level.edges[level.next++];
      if (target == kNoNode || seen_[target]) continue;
      if (levels.size() >= kMaxStateDepth) return unsupported(fmt::format("'{:.100}…' is nested too deeply", name_));
      name_.append(".").append(step);
      open(target, levels);
    }
    return {};
  }

  void open(NodeId node, std::vector<Level>& levels) {
    seen_[node] = true;
    if (has_data(node)) {
      result_.emplace_back(node, unique_name());
    } else {
      levels.push_back({node, edges(node), 0, name_.size()});
    }
  }

  std::string unique_name() {
    if (names_.insert(name_).second) return name_;
    for (int number = 2;; ++number) {
      std::string name = fmt::format("{}#{}", name_, number);
      if (names_.insert(name).second) return name;
    }
  }

  std::vector<std::pair<NodeId, std::string>> edges(NodeId node) const {
    std::vector<std::pair<NodeId, std::string>> edges;
    const auto add_keyed = [&](std::span<const NodeId> items) {
      for (std::size_t item = 0; item + 1 < items.size(); item += 2) {
        auto key = key_text(graph_, items[item]);
        edges.emplace_back(items[item], fmt::format("key{}", item / 2));
        edges.emplace_back(items[item + 1], key ? std::move(key).value() : fmt::format("value{}", item / 2));
      }
    };
    const auto add_indexed = [&](std::span<const NodeId> items) {
      for (std::size_t item = 0; item < items.size(); ++item) edges.emplace_back(items[item], fmt::to_string(item));
    };
    if (graph_[node].kind == NodeKind::kDict) {
      add_keyed(graph_[node].children);
      return edges;
    }
    add_indexed(graph_[node].children);
    if (graph_[node].kind != NodeKind::kObject) return edges;
    const ObjectParts& parts = graph_.object(node);
    edges.emplace_back(parts.callable, "callable");
    edges.emplace_back(parts.arguments, "args");
    edges.emplace_back(parts.keyword_arguments, "kwargs");
    edges.emplace_back(parts.state, "state");
    add_indexed(parts.list_items);
    add_keyed(parts.dict_items);
    return edges;
  }

  const StateGraph& graph_;
  std::vector<bool> seen_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<NodeId, std::string>> result_;
  std::string name_;
};

}  // namespace

Result<std::vector<std::pair<NodeId, std::string>>> tensor_names(const StateGraph& graph) {
  if (graph.root == kNoNode) return std::vector<std::pair<NodeId, std::string>>{};
  return TensorNamer(graph).run();
}

}  // namespace tenplex
