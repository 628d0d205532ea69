// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {
namespace {

using Names = std::unordered_map<NodeId, std::string>;

Names names_of(const StateGraph& graph) {
  Names names;
  if (auto found = tensor_names(graph))
    for (auto& [node, name] : *found) names.emplace(node, std::move(name));
  return names;
}

class Comparison {
 public:
  Comparison(const StateGraph& a, const StateGraph& b, bool with_tensors)
      : a_(a),
        b_(b),
        with_tensors_(with_tensors),
        a_names_(with_tensors ? names_of(a) : Names()),
        b_names_(with_tensors ? names_of(b) : Names()),
        pairs_left_(1024 + 16 * (a.size() + b.size())) {}

  bool run(NodeId a_node, NodeId b_node) {
    if (!push(a_node, b_node)) return false;
    while (!todo_.empty()) {
      const auto [a, b] = todo_.back();
      todo_.pop_back();
      if (!same_value(a, b) || !push_edges(a, b)) return false;
    }
    return true;
  }

 private:
  bool push(NodeId a, NodeId b) {
    if ((a == kNoNode) != (b == kNoNode)) return false;
    if (a == kNoNode || !done_.insert((std::uint64_t{a} << 32) | b).second) return true;
    if (pairs_left_-- == 0) return false;
    todo_.emplace_back(a, b);
    return true;
  }

  bool same_tensor(NodeId a, NodeId b) const {
    const TensorView left = a_.view(a);
    const TensorView right = b_.view(b);
    if (left.requires_grad != right.requires_grad || left.parameter != right.parameter) return false;
    const auto left_name = a_names_.find(a);
    const auto right_name = b_names_.find(b);
    if (left_name == a_names_.end() || right_name == b_names_.end())
      return left_name == a_names_.end() && right_name == b_names_.end();
    return left_name->second == right_name->second;
  }

  bool same_value(NodeId a, NodeId b) const {
    const Node& left = a_[a];
    const Node& right = b_[b];
    if (left.kind != right.kind) return false;
    switch (left.kind) {
      case NodeKind::kBool:
        return left.boolean == right.boolean;
      case NodeKind::kInt:
        return left.integer == right.integer;
      case NodeKind::kFloat:
        return std::bit_cast<std::uint64_t>(left.real) == std::bit_cast<std::uint64_t>(right.real);
      case NodeKind::kTensor:
        return with_tensors_ && same_tensor(a, b);
      case NodeKind::kObject:
        return a_.object(a).new_object == b_.object(b).new_object &&
               a_.object(a).list_items.size() == b_.object(b).list_items.size();
      default:
        return left.text == right.text;
    }
  }

  bool push_edges(NodeId a, NodeId b) {
    std::vector<NodeId> left;
    std::vector<NodeId> right;
    a_.for_each_edge(a, [&](NodeId edge) { left.push_back(edge); });
    b_.for_each_edge(b, [&](NodeId edge) { right.push_back(edge); });
    if (left.size() != right.size()) return false;
    for (std::size_t edge = 0; edge < left.size(); ++edge)
      if (!push(left[edge], right[edge])) return false;
    return true;
  }

  const StateGraph& a_;
  const StateGraph& b_;
  bool with_tensors_;
  Names a_names_;
  Names b_names_;
  std::size_t pairs_left_;
  std::vector<std::pair<NodeId, NodeId>> todo_;
  std::unordered_set<std::uint64_t> done_;
};

}  // namespace

bool equal(const StateGraph& a, NodeId a_node, const StateGraph& b, NodeId b_node) {
  return Comparison(a, b, true).run(a_node, b_node);
}

bool equal_objects(const StateGraph& a, NodeId a_node, const StateGraph& b, NodeId b_node) {
  return Comparison(a, b, false).run(a_node, b_node);
}

}  // namespace tenplex
