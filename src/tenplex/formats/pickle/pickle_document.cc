// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_document.h"

#include <fmt/format.h>

#include <cstring>

#include "tenplex/base/hash_seed.h"

namespace tenplex {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93;
  value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93;
  return value ^ (value >> 32);
}

Node plain(NodeKind kind, bool boolean = false, std::int64_t integer = 0) {
  Node node;
  node.kind = kind;
  node.boolean = boolean;
  node.integer = integer;
  return node;
}

}  // namespace

std::size_t PickleDocument::TextHash::operator()(std::string_view text) const {
  std::uint64_t hash = seed ^ text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = mix(hash ^ word) + seed;
  }
  std::uint64_t word = 0;
  std::memcpy(&word, text.data(), text.size());
  return mix(hash ^ word);
}

PickleDocument::PickleDocument() : strings_(0, TextHash{hash_seed()}), globals_(0, TextHash{hash_seed()}) {
  atoms_.push_back(plain(NodeKind::kNone));
  atoms_.push_back(plain(NodeKind::kBool, false));
  atoms_.push_back(plain(NodeKind::kBool, true));
  atoms_.push_back(plain(NodeKind::kTuple));
  for (std::int64_t value = 0; value < 256; ++value) atoms_.push_back(plain(NodeKind::kInt, false, value));
}

NodeId PickleDocument::text_atom(NodeKind kind, std::string&& text) {
  auto& table = kind == NodeKind::kGlobal ? globals_ : strings_;
  if (const auto found = table.find(text); found != table.end()) return found->second;
  Node& node = atoms_.emplace_back();
  node.kind = kind;
  node.text = std::move(text);
  const NodeId id = fixed_atom(atoms_.size() - 1);
  table.emplace(node.text, id);
  return id;
}

std::optional<NodeKind> PickleDocument::kind(NodeId id) const {
  if (id == kNoNode || is_token(id)) return std::nullopt;
  return (*this)[id].kind;
}

std::optional<std::string_view> PickleDocument::text(NodeId id) const {
  if (kind(id) != NodeKind::kString) return std::nullopt;
  return (*this)[id].text;
}

std::optional<std::int64_t> PickleDocument::integer(NodeId id) const {
  if (kind(id) != NodeKind::kInt) return std::nullopt;
  return (*this)[id].integer;
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
