// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/shared_nodes.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tenplex::dcp {
namespace {

constexpr std::uint32_t kNone = 0xffffffff;

// Who holds an atom makes no difference. Who holds a tuple does: the tensors in it are named by one way to them.
bool can_be_shared(const Node& node) { return has_identity(node.kind) || !node.children.empty(); }

// Walks the opened containers first, region 0, and then each object, a region of its own.
class Finder {
 public:
  Finder(const StateGraph& graph, const LeafList& leaves)
      : graph_(graph), is_object_(graph.size(), false), first_(graph.size(), kNone), last_region_(graph.size(), kNone) {
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      is_object_[leaves.node(leaf)] = graph[leaves.node(leaf)].kind != NodeKind::kTensor;
  }

  std::vector<SharedNode> run() && {
    std::vector<Visit> objects;
    walk({graph_.root, kNone, 0, 0}, &objects);
    for (std::uint32_t object = 0; object < objects.size(); ++object) {
      objects[object].region = object + 1;
      walk(objects[object], nullptr);
    }
    return std::move(shared_);
  }

 private:
  struct Visit {
    NodeId node;
    std::uint32_t parent;  // in visits_
    std::uint32_t edge;    // of the parent
    std::uint32_t region;
  };

  // Objects met on the way are collected once, if there is a list for them, and entered otherwise.
  void walk(const Visit& start, std::vector<Visit>* objects) {
    std::size_t next = visits_.size();
    arrive(start);
    for (; next < visits_.size(); ++next) {
      std::uint32_t edge = 0;
      graph_.for_each_edge(visits_[next].node, [&](NodeId child) {
        const Visit visit{child, static_cast<std::uint32_t>(next), edge++, start.region};
        if (child == kNoNode) return;
        if (objects != nullptr && is_object_[child]) {
          if (last_region_[child] != start.region) objects->push_back(visit);
          last_region_[child] = start.region;
        } else {
          arrive(visit);
        }
      });
    }
  }

  void arrive(const Visit& visit) {
    if (last_region_[visit.node] == visit.region) return;
    last_region_[visit.node] = visit.region;
    std::uint32_t& first = first_[visit.node];
    if (first != kNone && can_be_shared(graph_[visit.node])) {
      shared_.push_back({place_of(visit), place_of(visits_[first])});
      return;
    }
    if (first == kNone) first = static_cast<std::uint32_t>(visits_.size());
    visits_.push_back(visit);
  }

  std::vector<std::int64_t> place_of(Visit visit) const {
    std::vector<std::int64_t> place;
    for (; visit.parent != kNone; visit = visits_[visit.parent]) place.push_back(visit.edge);
    std::reverse(place.begin(), place.end());
    return place;
  }

  const StateGraph& graph_;
  std::vector<bool> is_object_;             // by node
  std::vector<std::uint32_t> first_;        // by node: in visits_
  std::vector<std::uint32_t> last_region_;  // by node
  std::vector<Visit> visits_;
  std::vector<SharedNode> shared_;
};

std::optional<NodeId> edge_at(const StateGraph& graph, NodeId id, std::size_t edge) {
  const std::vector<NodeId>& children = graph[id].children;
  if (edge < children.size()) return children[edge];
  if (graph[id].kind != NodeKind::kObject) return std::nullopt;
  edge -= children.size();
  const ObjectParts& parts = graph.object(id);
  const NodeId single[] = {parts.callable, parts.arguments, parts.keyword_arguments, parts.state};
  if (edge < std::size(single)) return single[edge];
  edge -= std::size(single);
  if (edge < parts.list_items.size()) return parts.list_items[edge];
  edge -= parts.list_items.size();
  if (edge < parts.dict_items.size()) return parts.dict_items[edge];
  return std::nullopt;
}

Result<NodeId> node_at(const StateGraph& graph, std::span<const std::int64_t> place) {
  NodeId id = graph.root;
  for (const std::int64_t edge : place) {
    const std::optional<NodeId> next = edge < 0 ? std::nullopt : edge_at(graph, id, static_cast<std::size_t>(edge));
    if (!next || *next == kNoNode) return corrupt("tenplex.json: a shared node has a place that is not there");
    id = *next;
  }
  return NodeId{id};
}

// What nothing leads to is emptied, and the tensors that are only there go.
void drop_unreached(std::size_t first_inner, BuiltState* built) {
  StateGraph& graph = built->graph;
  std::vector<bool> reached(graph.size(), false);
  std::vector<NodeId> open;
  const auto visit = [&](NodeId id) {
    if (id == kNoNode || reached[id]) return;
    reached[id] = true;
    open.push_back(id);
  };
  visit(graph.root);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    graph.for_each_edge(id, visit);
  }
  std::vector<TensorId> new_ids(built->inner.size(), TensorId(std::int32_t{-1}));
  std::vector<InnerTensor> kept;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!reached[id]) {
      graph[id] = Node{};
    } else if (graph[id].kind == NodeKind::kTensor && graph.view(id).tensor.index() >= first_inner) {
      TensorView view = graph.view(id);
      const std::size_t old = view.tensor.index() - first_inner;
      if (new_ids[old].value() < 0) {
        new_ids[old] = TensorId(first_inner + kept.size());
        kept.push_back(std::move(built->inner[old]));
        kept.back().chunk.tensor = new_ids[old];
      }
      view.tensor = new_ids[old];
      graph.set_view(id, view);
    }
  }
  built->inner = std::move(kept);
}

}  // namespace

std::vector<SharedNode> find_shared_nodes(const StateGraph& graph, const LeafList& leaves) {
  if (graph.root == kNoNode) return {};
  return Finder(graph, leaves).run();
}

Result<void> join_shared_nodes(std::span<const SharedNode> shared, std::span<const TensorInfo> tensors,
                               BuiltState* built) {
  if (shared.empty()) return {};
  StateGraph& graph = built->graph;
  const auto info = [&](NodeId id) -> const TensorInfo& {
    const std::size_t index = graph.view(id).tensor.index();
    return index < tensors.size() ? tensors[index] : built->inner[index - tensors.size()].tensor;
  };
  std::unordered_map<NodeId, NodeId> joined;
  for (const SharedNode& node : shared) {
    TENPLEX_ASSIGN_OR_RETURN(const NodeId from, node_at(graph, node.place));
    TENPLEX_ASSIGN_OR_RETURN(const NodeId to, node_at(graph, node.first));
    bool alike = graph[from].kind == graph[to].kind && from != graph.root;
    if (alike && graph[from].kind == NodeKind::kTensor)
      alike = info(from).dtype == info(to).dtype && info(from).shape == info(to).shape;
    if (!alike) return corrupt("tenplex.json: a shared node is of another kind at its first place");
    joined.emplace(from, to);
  }
  for (const auto& [from, to] : joined)
    if (joined.contains(to)) return corrupt("tenplex.json: the first place of a shared node is not its first one");
  for (NodeId id = 0; id < graph.size(); ++id) {
    graph.for_each_edge(id, [&](NodeId& edge) {
      if (const auto found = joined.find(edge); found != joined.end()) edge = found->second;
    });
  }
  drop_unreached(tensors.size(), built);
  return {};
}

}  // namespace tenplex::dcp
