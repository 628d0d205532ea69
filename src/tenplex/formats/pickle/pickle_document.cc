// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_document.h"

#include "tenplex/base/check.h"

namespace tenplex {
namespace {

Node plain(NodeKind kind, bool boolean = false, std::int64_t integer = 0) {
  Node node;
  node.kind = kind;
  node.boolean = boolean;
  node.integer = integer;
  return node;
}

}  // namespace

PickleDocument::PickleDocument() {
  atoms_.push_back(plain(NodeKind::kNone));
  atoms_.push_back(plain(NodeKind::kBool, false));
  atoms_.push_back(plain(NodeKind::kBool, true));
  atoms_.push_back(plain(NodeKind::kTuple));
  for (std::int64_t value = 0; value < 256; ++value) atoms_.push_back(plain(NodeKind::kInt, false, value));
}

NodeId PickleDocument::find_atom(NodeKind kind, std::uint32_t hash, std::string_view text) const {
  const std::uint32_t atom = table(kind).find(hash, [&](std::uint32_t index) { return atoms_[index].text == text; });
  return atom == TextTable::kNone ? kNoNode : fixed_atom(atom);
}

NodeId PickleDocument::find_text(std::string_view text) const {
  return find_atom(NodeKind::kString, strings_.hash(text), text);
}

NodeId PickleDocument::add_atom(NodeKind kind, std::uint32_t hash, std::string_view text) {
  TENPLEX_CHECK(atoms_.size() < kNoNode - kFirstAtom);
  (kind == NodeKind::kGlobal ? globals_ : strings_).add(hash, static_cast<std::uint32_t>(atoms_.size()));
  Node node;
  node.kind = kind;
  node.text = text;
  atoms_.push_back(std::move(node));
  return fixed_atom(atoms_.size() - 1);
}

std::optional<std::string_view> PickleDocument::text(NodeId id) const {
  if (kind(id) != NodeKind::kString) return std::nullopt;
  return (*this)[id].text;
}

bool PickleDocument::is_global(NodeId id, std::string_view module, std::string_view name) const {
  if (kind(id) != NodeKind::kGlobal) return false;
  const std::string_view text = (*this)[id].text;
  return text.size() == module.size() + 1 + name.size() && text.starts_with(module) && text[module.size()] == '\n' &&
         text.ends_with(name);
}

bool PickleDocument::is_instance(NodeId id, std::string_view module, std::string_view name) const {
  return kind(id) == NodeKind::kObject && is_global(object(id).callable, module, name);
}

std::span<const NodeId> PickleDocument::children(NodeId id) const {
  if (!kind(id)) return {};
  return (*this)[id].children;
}

NodeId PickleDocument::find(NodeId dict, std::string_view key) const {
  if (kind(dict) != NodeKind::kDict) return kNoNode;
  const auto items = children(dict);
  for (std::size_t item = 0; item + 1 < items.size(); item += 2)
    if (text(items[item]) == key) return items[item + 1];
  return kNoNode;
}

Result<StateGraph> PickleDocument::into_graph() && {
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
  for (const NodeId atom : used) graph_.add(std::move(atoms_[atom - kFirstAtom]));
  return std::move(graph_);
}

}  // namespace tenplex
