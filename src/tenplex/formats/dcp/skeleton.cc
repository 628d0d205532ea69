// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/state/row_major.h"
#include "tenplex/formats/state/view_numbers.h"

namespace tenplex::dcp {
namespace {

constexpr std::string_view kLeafTag = "tenplex.leaf";

// Calls visit(NodeId&) for every value (not key) of an opened container.
template <typename Visit>
void for_each_value(StateGraph& graph, NodeId id, Visit&& visit) {
  const auto values = [&](std::vector<NodeId>& nodes, bool pairs) {
    for (std::size_t i = pairs ? 1 : 0; i < nodes.size(); i += pairs ? 2 : 1) visit(nodes[i]);
  };
  const NodeKind kind = graph[id].kind;
  if (kind == NodeKind::kDict || kind == NodeKind::kList) {
    values(graph[id].children, kind == NodeKind::kDict);
  } else if (kind == NodeKind::kObject) {
    values(graph.object(id).dict_items, true);
    values(graph.object(id).list_items, false);
  }
}

// True for atoms, and tuples of nothing else: who holds them makes no difference.
bool is_constant(const StateGraph& graph, NodeId id) {
  std::vector<NodeId> open{id};
  std::unordered_set<NodeId> seen{id};
  while (!open.empty()) {
    const Node& node = graph[open.back()];
    open.pop_back();
    if (has_identity(node.kind)) return false;
    for (const NodeId child : node.children) {
      if (seen.insert(child).second) open.push_back(child);
    }
  }
  return true;
}

class PlainTree {
 public:
  explicit PlainTree(const CheckpointInfo& info) : info_(info), graph_(info.state) {}

  bool run() {
    if (graph_.root == kNoNode) return true;
    if (graph_[graph_.root].kind != NodeKind::kDict || !visit(graph_.root) || is_flat()) return false;
    while (!open_.empty()) {
      const NodeId id = open_.back();
      open_.pop_back();
      for (const NodeId child : graph_[id].children) {
        if (!visit(child)) return false;
      }
    }
    return true;
  }

 private:
  // Only tensors under the root, none of which says more than its name and bytes.
  bool is_flat() const {
    const std::vector<NodeId>& items = graph_[graph_.root].children;
    for (std::size_t i = 1; i < items.size(); i += 2) {
      if (graph_[items[i]].kind != NodeKind::kTensor || graph_.view(items[i]).requires_grad) return false;
    }
    return true;
  }

  bool visit(NodeId id) {
    const Node& node = graph_[id];
    if (node.kind == NodeKind::kTensor) return plain_view(graph_.view(id));
    const bool container = node.kind == NodeKind::kDict || (node.kind == NodeKind::kList && list_items(graph_, id));
    if (!container) return (node.kind != NodeKind::kObject || !mapping_items(graph_, id)) && is_once(id);
    if (node.children.empty() || !seen_.insert(id).second) return false;
    for (std::size_t i = 0; node.kind == NodeKind::kDict && i < node.children.size(); i += 2) {
      if (graph_[node.children[i]].kind != NodeKind::kString) return false;
    }
    open_.push_back(id);
    return true;
  }

  // Two names of one object need the tree to say so.
  bool is_once(NodeId id) {
    const Node& node = graph_[id];
    const bool atom = !has_identity(node.kind) && node.children.empty();
    return atom || seen_.insert(id).second || is_constant(graph_, id);
  }

  bool plain_view(const TensorView& view) {
    return view.offset == 0 && !view.parameter && storages_.insert(view.storage).second &&
           tensors_.insert(view.tensor).second && is_row_major(view.strides, info_.tensors[view.tensor.index()].shape);
  }

  const CheckpointInfo& info_;
  const StateGraph& graph_;
  std::vector<NodeId> open_;
  std::unordered_set<NodeId> seen_;
  std::unordered_set<std::uint32_t> storages_;
  std::unordered_set<TensorId> tensors_;
};

}  // namespace

std::vector<InnerView> shared_inner_views(const CheckpointInfo& info, const LeafList& leaves) {
  constexpr std::uint32_t kShared = 0xffffffff;
  const StateGraph& graph = info.state;
  std::vector<std::uint32_t> last_leaf(graph.size(), kShared);  // by node; several leaves may hold one
  std::vector<NodeId> inner;
  std::unordered_map<std::uint32_t, std::uint32_t> leaf_of_storage;
  for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf) {
    std::vector<NodeId> open;
    const auto visit = [&](NodeId id) {
      if (id == kNoNode || last_leaf[id] == leaf) return;
      last_leaf[id] = leaf;
      open.push_back(id);
    };
    visit(leaves.node(leaf));
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      graph.for_each_edge(id, visit);
      if (graph[id].kind != NodeKind::kTensor) continue;
      if (id != leaves.node(leaf)) inner.push_back(id);
      const auto [owner, added] = leaf_of_storage.emplace(graph.view(id).storage, leaf);
      if (!added && owner->second != leaf) owner->second = kShared;
    }
  }
  const ViewNumbers numbers(graph);  // those of the skeleton, whose views are the same
  std::sort(inner.begin(), inner.end());
  inner.erase(std::unique(inner.begin(), inner.end()), inner.end());
  std::vector<InnerView> shared;
  for (const NodeId id : inner) {
    const TensorView view = graph.view(id);
    if (leaf_of_storage.at(view.storage) != kShared) continue;
    InnerView& kept = shared.emplace_back(InnerView{info.tensors[view.tensor.index()].name, view});
    kept.view.storage = numbers.storage(view);
    kept.view.object = numbers.object(view);
  }
  return shared;
}

std::vector<std::string> repeated_names(const LeafList& leaves) {
  std::vector<std::string> names;
  std::unordered_set<NodeId> seen;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
    if (!seen.insert(leaves.node(leaf)).second) names.push_back(leaves.name(leaf));
  return names;
}

bool is_plain_tree(const CheckpointInfo& info) { return PlainTree(info).run(); }

NodeId graft(StateGraph&& from, StateGraph* graph) {
  const auto base = static_cast<NodeId>(graph->size());
  const auto shifted = [&](NodeId id) { return id == kNoNode ? kNoNode : id + base; };
  const auto all = [&](std::vector<NodeId> ids) {
    for (NodeId& id : ids) id = shifted(id);
    return ids;
  };
  for (NodeId id = 0; id < from.size(); ++id) {
    const NodeKind kind = from[id].kind;
    if (kind == NodeKind::kTensor || kind == NodeKind::kStorage) {
      (*graph)[graph->add_tensor(from.view(id))].kind = kind;
    } else if (kind == NodeKind::kObject) {
      ObjectParts parts = from.object(id);
      parts.callable = shifted(parts.callable);
      parts.arguments = shifted(parts.arguments);
      parts.keyword_arguments = shifted(parts.keyword_arguments);
      parts.state = shifted(parts.state);
      parts.list_items = all(std::move(parts.list_items));
      parts.dict_items = all(std::move(parts.dict_items));
      graph->add_object(std::move(parts));
    } else {
      Node node = std::move(from[id]);
      node.children = all(std::move(node.children));
      graph->add(std::move(node));
    }
  }
  return base;
}

Result<EncodedState> encode_skeleton(const CheckpointInfo& info, std::span<const TensorInfo> tensors,
                                     const LeafList& leaves) {
  StateGraph graph = info.state;
  std::unordered_map<NodeId, std::size_t> leaf_of;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) leaf_of.emplace(leaves.node(leaf), leaf);
  const auto placeholder = [&](std::size_t leaf) {
    const NodeId tag = graph.add_string(std::string(kLeafTag));
    return graph.add_tuple({tag, graph.add_string(leaves.name(leaf))});
  };
  std::vector<NodeId> open;
  std::unordered_set<NodeId> seen;
  const auto visit = [&](NodeId id) {
    if (seen.insert(id).second) open.push_back(id);
  };
  const auto root_leaf = leaf_of.find(graph.root);
  if (root_leaf == leaf_of.end()) {
    visit(graph.root);
  } else if (graph[graph.root].kind != NodeKind::kTensor) {
    graph.root = placeholder(root_leaf->second);
  }
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    std::vector<NodeId> values;
    for_each_value(graph, id, [&](NodeId& value) { values.push_back(value); });
    for (NodeId& value : values) {
      const auto leaf = leaf_of.find(value);
      if (leaf == leaf_of.end()) {
        visit(value);
      } else if (graph[value].kind != NodeKind::kTensor) {
        value = placeholder(leaf->second);
      }
    }
    std::size_t next = 0;
    for_each_value(graph, id, [&](NodeId& value) { value = values[next++]; });
  }
  StateJsonOptions options;
  options.allow_objects = true;
  return encode_state(graph, tensors, options);
}

Result<NodeId> restore_skeleton(const SideFile& side, std::span<const TensorInfo> tensors,
                                std::span<const SkeletonLeaf> leaves, StateGraph* graph) {
  StateJsonSource source;
  source.tensors = tensors;
  source.read_object = [&](const ObjectFile& file) -> Result<std::string> {
    for (const auto& [path, bytes] : side.pickles) {
      if (path == file.path) return std::string(bytes);
    }
    return corrupt(fmt::format("object '{}' is not there", file.path));
  };
  for (const InnerView& inner : side.inner_views)
    source.first_unnamed_storage = std::max(source.first_unnamed_storage, inner.view.storage + 1);
  JsonReader json(side.side.state_json);
  TENPLEX_ASSIGN_OR_RETURN(StateGraph skeleton, decode_state(json, source));
  if (skeleton.root == kNoNode) return corrupt("the state has no root");
  std::unordered_map<std::string_view, NodeId> node_of;
  for (const SkeletonLeaf& leaf : leaves) node_of.emplace(leaf.name, leaf.node);
  const NodeId skeleton_root = skeleton.root;
  const NodeId base = graft(std::move(skeleton), graph);
  // Placeholders give way to what they stand for.
  std::unordered_map<NodeId, NodeId> replaced;
  for (NodeId id = base; id < graph->size(); ++id) {
    const Node& node = (*graph)[id];
    if (node.kind != NodeKind::kTuple || node.children.size() != 2) continue;
    const Node& tag = (*graph)[node.children[0]];
    const Node& name = (*graph)[node.children[1]];
    if (tag.kind != NodeKind::kString || tag.text != kLeafTag || name.kind != NodeKind::kString) continue;
    const auto leaf = node_of.find(name.text);
    if (leaf == node_of.end()) return corrupt(fmt::format("the state refers to '{}', which is not stored", name.text));
    replaced.emplace(id, leaf->second);
  }
  const auto follow = [&](NodeId& id) {
    if (const auto found = replaced.find(id); found != replaced.end()) id = found->second;
  };
  for (NodeId id = base; id < graph->size(); ++id) graph->for_each_edge(id, follow);
  NodeId root = skeleton_root + base;
  follow(root);
  return root;
}

}  // namespace tenplex::dcp
