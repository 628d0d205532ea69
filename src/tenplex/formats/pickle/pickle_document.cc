// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_document.h"

#include <string>
#include <vector>

#include "tenplex/base/check.h"

namespace tenplex {
namespace {

constexpr std::size_t kLargeText = 64 << 10;

}  // namespace

PickleDocument::PickleDocument() {
  atoms_.push_back({});
  for (const std::uint32_t value : {0U, 1U}) atoms_.push_back({nullptr, value, NodeKind::kBool});
  atoms_.push_back({nullptr, 0, NodeKind::kTuple});
  for (std::uint32_t value = 0; value < 256; ++value) atoms_.push_back({nullptr, value, NodeKind::kInt});
}

NodeId PickleDocument::find_atom(NodeKind kind, std::uint32_t hash, std::string_view text) const {
  const std::uint32_t atom =
      table(kind).find(hash, [&](std::uint32_t index) { return atoms_[index].text_view() == text; });
  return atom == TextTable::kNone ? kNoNode : fixed_atom(atom);
}

NodeId PickleDocument::find_text(std::string_view text) const {
  return find_atom(NodeKind::kString, strings_.hash(text), text);
}

NodeId PickleDocument::add_atom(NodeKind kind, std::uint32_t hash, std::string_view text) {
  TENPLEX_CHECK(atoms_.size() < kNoNode - kFirstAtom && text.size() <= kMaxAtomText);
  (kind == NodeKind::kGlobal ? globals_ : strings_).add(hash, static_cast<std::uint32_t>(atoms_.size()));
  atoms_.push_back({texts_.add(text), static_cast<std::uint32_t>(text.size()), kind});
  return fixed_atom(atoms_.size() - 1);
}

std::optional<std::string_view> PickleDocument::text_of(NodeKind wanted, NodeId id) const {
  if (kind(id) != wanted) return std::nullopt;
  return is_atom(id) ? atom(id).text_view() : std::string_view(graph_[id].text);
}

Node PickleDocument::node_of(NodeId id) const {
  const Atom& from = atom(id);
  Node node;
  node.kind = from.kind;
  if (from.text != nullptr) {
    node.text = from.text_view();
  } else if (from.kind == NodeKind::kInt) {
    node.integer = from.value;
  } else {
    node.boolean = from.value != 0;
  }
  return node;
}

bool PickleDocument::is_global(NodeId id, std::string_view module, std::string_view name) const {
  const std::optional<std::string_view> found = global(id);
  if (!found) return false;
  const std::string_view text = *found;
  return text.size() == module.size() + 1 + name.size() && text.starts_with(module) && text[module.size()] == '\n' &&
         text.ends_with(name);
}

bool PickleDocument::is_instance(NodeId id, std::string_view module, std::string_view name) const {
  return kind(id) == NodeKind::kObject && is_global(object(id).callable, module, name);
}

std::span<const NodeId> PickleDocument::children(NodeId id) const {
  if (!kind(id) || is_atom(id)) return {};
  return graph_[id].children;
}

NodeId PickleDocument::find(NodeId dict, std::string_view key) const {
  if (kind(dict) != NodeKind::kDict) return kNoNode;
  const auto items = children(dict);
  for (std::size_t item = 0; item + 1 < items.size(); item += 2)
    if (text(items[item]) == key) return items[item + 1];
  return kNoNode;
}

// What no node leads to stays as a number; a large text is given back: bytes of protocol 2 are made of one.
void PickleDocument::drop_unused_texts() {
  const auto size = static_cast<NodeId>(graph_.size());
  const auto is_large = [&](NodeId id) { return graph_[id].text.size() >= kLargeText; };
  bool any = false;
  for (NodeId id = 0; id < size; ++id) any = any || is_large(id);
  if (!any) return;
  std::vector<bool> used(size, false);
  std::vector<NodeId> todo;
  const auto visit = [&](NodeId id) {
    if (id >= size || used[id]) return;  // tokens and atoms have larger numbers
    used[id] = true;
    todo.push_back(id);
  };
  visit(graph_.root);
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    graph_.for_each_edge(id, visit);
  }
  for (NodeId id = 0; id < size; ++id)
    if (!used[id] && is_large(id)) std::string().swap(graph_[id].text);
}

Result<StateGraph> PickleDocument::into_graph() && {
  drop_unused_texts();
  const auto first = static_cast<NodeId>(graph_.size());
  std::vector<NodeId> new_ids(atoms_.size(), kNoNode);
  std::vector<NodeId> used;
  bool token = false;
  const auto relabel = [&](NodeId& edge) {
    token = token || is_token(edge);
    if (!is_atom(edge)) return;
    NodeId& id = new_ids[edge - kFirstAtom];
    if (id == kNoNode) {
      id = first + static_cast<NodeId>(used.size());
      used.push_back(edge);
    }
    edge = id;
  };
  for (NodeId id = 0; id < first; ++id) graph_.for_each_edge(id, relabel);
  relabel(graph_.root);
  if (token) return internal_error("a pickle document with tokens has no plain graph");
  for (const NodeId id : used) graph_.add(node_of(id));
  return std::move(graph_);
}

}  // namespace tenplex
