// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

bool has_identity(NodeKind kind) {
  switch (kind) {
    case NodeKind::kByteArray:
    case NodeKind::kList:
    case NodeKind::kSet:
    case NodeKind::kDict:
    case NodeKind::kTensor:
    case NodeKind::kStorage:
    case NodeKind::kObject:
      return true;
    default:
      return false;
  }
}

NodeId StateGraph::add(Node node) {
  TENPLEX_CHECK(nodes_.size() < kNoNode);
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId StateGraph::add_new(NodeKind kind) {
  TENPLEX_CHECK(nodes_.size() < kNoNode);
  nodes_.push_back({}).kind = kind;
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId StateGraph::add_none() { return add(Node{}); }

NodeId StateGraph::add_bool(bool value) {
  Node node;
  node.kind = NodeKind::kBool;
  node.boolean = value;
  return add(std::move(node));
}

NodeId StateGraph::add_int(std::int64_t value) {
  Node node;
  node.kind = NodeKind::kInt;
  node.integer = value;
  return add(std::move(node));
}

NodeId StateGraph::add_float(double value) {
  Node node;
  node.kind = NodeKind::kFloat;
  node.real = value;
  return add(std::move(node));
}

NodeId StateGraph::add_string(std::string text) {
  Node node;
  node.kind = NodeKind::kString;
  node.text = std::move(text);
  return add(std::move(node));
}

NodeId StateGraph::add_bytes(std::string bytes) {
  Node node;
  node.kind = NodeKind::kBytes;
  node.text = std::move(bytes);
  return add(std::move(node));
}

NodeId StateGraph::add_list(std::vector<NodeId> items) {
  Node node;
  node.kind = NodeKind::kList;
  node.children = std::move(items);
  return add(std::move(node));
}

NodeId StateGraph::add_tuple(std::vector<NodeId> items) {
  Node node;
  node.kind = NodeKind::kTuple;
  node.children = std::move(items);
  return add(std::move(node));
}

NodeId StateGraph::add_dict(std::vector<NodeId> keys_and_values) {
  TENPLEX_CHECK(keys_and_values.size() % 2 == 0);
  Node node;
  node.kind = NodeKind::kDict;
  node.children = std::move(keys_and_values);
  return add(std::move(node));
}

StateGraph::PackedView StateGraph::pack(const TensorView& view) {
  constexpr std::size_t kMaxStrides = std::size_t{1} << 30;
  const auto next = static_cast<std::uint32_t>(strides_.size());
  const auto [row, added] = strides_rows_.try_emplace(view.strides, next);
  if (added) {
    TENPLEX_CHECK(strides_.size() < kMaxStrides);
    strides_.push_back(view.strides);
  }
  PackedView packed;
  packed.offset = view.offset;
  packed.tensor = view.tensor;
  packed.storage = view.storage;
  packed.object = view.object;
  packed.strides = row->second & (kMaxStrides - 1);
  packed.requires_grad = view.requires_grad ? 1 : 0;
  packed.parameter = view.parameter ? 1 : 0;
  return packed;
}

TensorView StateGraph::view(NodeId id) const {
  const PackedView& packed = views_[static_cast<std::size_t>(nodes_[id].integer)];
  TensorView view;
  view.tensor = packed.tensor;
  view.storage = packed.storage;
  view.offset = packed.offset;
  view.strides = strides_[packed.strides];
  view.requires_grad = packed.requires_grad != 0;
  view.parameter = packed.parameter != 0;
  view.object = packed.object;
  return view;
}

void StateGraph::set_view(NodeId id, const TensorView& view) {
  views_[static_cast<std::size_t>(nodes_[id].integer)] = pack(view);
}

NodeId StateGraph::add_tensor(const TensorView& view) {
  Node node;
  node.kind = NodeKind::kTensor;
  node.integer = static_cast<std::int64_t>(views_.size());
  views_.push_back(pack(view));
  return add(std::move(node));
}

NodeId StateGraph::add_global(std::string_view module, std::string_view name) {
  Node node;
  node.kind = NodeKind::kGlobal;
  node.text.reserve(module.size() + 1 + name.size());
  node.text.append(module).append("\n").append(name);
  return add(std::move(node));
}

NodeId StateGraph::add_object(ObjectParts parts) {
  Node node;
  node.kind = NodeKind::kObject;
  node.integer = static_cast<std::int64_t>(objects_.size());
  objects_.push_back(std::move(parts));
  return add(std::move(node));
}

void StateGraph::rollback(const Mark& mark) {
  TENPLEX_CHECK(mark.nodes <= nodes_.size() && mark.views <= views_.size() && mark.objects <= objects_.size());
  nodes_.truncate(mark.nodes);
  views_.truncate(mark.views);
  objects_.resize(mark.objects);
}

bool StateGraph::is_global(NodeId id, std::string_view module, std::string_view name) const {
  if (id >= nodes_.size() || nodes_[id].kind != NodeKind::kGlobal) return false;
  const std::string_view text = nodes_[id].text;
  return text.size() == module.size() + 1 + name.size() && text.starts_with(module) && text[module.size()] == '\n' &&
         text.ends_with(name);
}

bool StateGraph::is_instance(NodeId id, std::string_view module, std::string_view name) const {
  return id < nodes_.size() && nodes_[id].kind == NodeKind::kObject && is_global(object(id).callable, module, name);
}

std::optional<std::span<const NodeId>> mapping_items(const StateGraph& graph, NodeId node) {
  if (node >= graph.size()) return std::nullopt;
  if (graph[node].kind == NodeKind::kDict) return std::span<const NodeId>(graph[node].children);
  if (graph[node].kind != NodeKind::kObject) return std::nullopt;
  const ObjectParts& parts = graph.object(node);
  if (!parts.dict_items.empty() || graph.is_global(parts.callable, "collections", "OrderedDict") ||
      graph.is_global(parts.callable, "collections", "defaultdict"))
    return std::span<const NodeId>(parts.dict_items);
  return std::nullopt;
}

std::optional<std::span<const NodeId>> list_items(const StateGraph& graph, NodeId node) {
  if (node >= graph.size()) return std::nullopt;
  if (graph[node].kind == NodeKind::kList) return std::span<const NodeId>(graph[node].children);
  if (graph[node].kind == NodeKind::kObject && !graph.object(node).list_items.empty())
    return std::span<const NodeId>(graph.object(node).list_items);
  return std::nullopt;
}

}  // namespace tenplex
