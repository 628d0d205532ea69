// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/shared_parts.h"

namespace tenplex {
namespace {

class Finder {
 public:
  Finder(const StateGraph& graph, const std::function<bool(NodeId)>& has_place,
         const std::function<bool(NodeId)>& may_have_place)
      : graph_(graph), has_place_(has_place), may_have_place_(may_have_place), at_(graph.size()) {}

  std::vector<SharedPart> run(std::span<const NodeId> roots) {
    for (const NodeId root : roots) walk(root);
    for (const NodeId root : roots) count_places_below(root);
    for (const NodeId node : found_) count_places_below(node);
    spread_through_repeated();
    std::vector<SharedPart> parts;
    for (const NodeId node : found_) {
      const Found& found = at_[node];
      if (found.of_two_roots && found.in_two_places && may_have_place_(node)) parts.push_back({node, found.root});
    }
    return parts;
  }

 private:
  struct Found {
    NodeId root = kNoNode;
    bool of_two_roots = false;
    bool in_a_place = false;
    bool in_two_places = false;
  };

  // A node that two roots have led to is left to them: what lies below it is visited by both.
  void walk(NodeId root) {
    std::vector<NodeId> open{root};
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      graph_.for_each_edge(node, [&](NodeId below) {
        if (below == kNoNode || (has_place_(below) && may_have_place_(below))) return;
        Found& found = at_[below];
        if (found.root == root || found.of_two_roots) return;
        if (found.root == kNoNode) {
          found.root = root;
          found_.push_back(below);
        } else {
          found.of_two_roots = true;
        }
        open.push_back(below);
      });
    }
  }

  void count_places_below(NodeId node) {
    graph_.for_each_edge(node, [&](NodeId below) {
      if (below == kNoNode) return;
      at_[below].in_two_places = at_[below].in_a_place;
      at_[below].in_a_place = true;
    });
  }

  // What is in a node that stands in two places and is to be written in each of them does so too.
  void spread_through_repeated() {
    std::vector<NodeId> open;
    for (const NodeId node : found_)
      if (at_[node].in_two_places && !may_have_place_(node)) open.push_back(node);
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      graph_.for_each_edge(node, [&](NodeId below) {
        if (below == kNoNode || at_[below].in_two_places) return;
        at_[below].in_two_places = true;
        if (!may_have_place_(below)) open.push_back(below);
      });
    }
  }

  const StateGraph& graph_;
  const std::function<bool(NodeId)>& has_place_;
  const std::function<bool(NodeId)>& may_have_place_;
  std::vector<Found> at_;      // by node
  std::vector<NodeId> found_;  // in the order of the walk
};

}  // namespace

std::vector<SharedPart> find_shared_parts(const StateGraph& graph, std::span<const NodeId> roots,
                                          const std::function<bool(NodeId)>& has_place,
                                          const std::function<bool(NodeId)>& may_have_place) {
  if (roots.empty()) return {};
  return Finder(graph, has_place, may_have_place).run(roots);
}

}  // namespace tenplex
