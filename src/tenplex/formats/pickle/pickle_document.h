// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PickleDocument: what a pickle says, as nodes. Three ranges of NodeId:
//
//   0x00000000 …  nodes of graph(): containers, objects, tensors, numbers
//   0x80000000 …  tokens: what a hook put in the place of an object; only the hook's owner knows what they mean
//   0xC0000000 …  atoms: text, globals, None, True, False, (), 0 … 255; each distinct value is stored once
//
// operator[] answers for nodes and atoms. into_graph() turns atoms into ordinary nodes and gives a plain StateGraph.
//
// Resource with value-like behaviour: movable. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/pickle/text_table.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

inline constexpr NodeId kFirstToken = 0x80000000;
inline constexpr NodeId kFirstAtom = 0xC0000000;

inline bool is_token(NodeId id) { return id >= kFirstToken && id < kFirstAtom; }
inline bool is_atom(NodeId id) { return id >= kFirstAtom && id != kNoNode; }
/// Requires: is_token(id).
inline std::uint32_t token_value(NodeId id) { return id - kFirstToken; }

class PickleDocument {
 public:
  PickleDocument();

  NodeId root() const { return graph_.root; }
  /// Bytes from the start of the pickle up to and including its STOP.
  std::int64_t end_offset() const { return end_offset_; }

  /// Requires: id is a node or an atom.
  const Node& operator[](NodeId id) const { return is_atom(id) ? atoms_[id - kFirstAtom] : graph_[id]; }
  /// Kind of a node or atom; nothing for a token and for kNoNode.
  std::optional<NodeKind> kind(NodeId id) const {
    if (id == kNoNode || is_token(id)) return std::nullopt;
    return (*this)[id].kind;
  }
  /// The text of a kString, the value of a kInt; nothing for other kinds.
  std::optional<std::string_view> text(NodeId id) const;
  std::optional<std::int64_t> integer(NodeId id) const {
    if (kind(id) != NodeKind::kInt) return std::nullopt;
    return (*this)[id].integer;
  }
  /// Requires: kind is kObject.
  const ObjectParts& object(NodeId id) const { return graph_.object(id); }
  /// Requires: kind is kTensor or kStorage.
  const TensorView& view(NodeId id) const { return graph_.view(id); }

  /// True for the global `module.name`.
  bool is_global(NodeId id, std::string_view module, std::string_view name) const;
  /// True for an object whose callable is that global.
  bool is_instance(NodeId id, std::string_view module, std::string_view name) const;
  /// Children of a list, tuple, set or dict; empty for everything else.
  std::span<const NodeId> children(NodeId id) const;
  /// Value of text key `key` in a dict, or kNoNode. Cost: O(entries).
  NodeId find(NodeId dict, std::string_view key) const;
  /// The atom of that text, or kNoNode: then no such text was read.
  NodeId find_text(std::string_view text) const;

  /// For persistent-id callbacks, which add nodes to it.
  StateGraph& graph() { return graph_; }
  const StateGraph& graph() const { return graph_; }

  /// The plain graph. Errors: internal if a token is left in it.
  Result<StateGraph> into_graph() &&;

 private:
  friend class PickleMachine;

  const TextTable& table(NodeKind kind) const { return kind == NodeKind::kGlobal ? globals_ : strings_; }
  NodeId find_atom(NodeKind kind, std::uint32_t hash, std::string_view text) const;
  /// Requires: find_atom() finds none.
  NodeId add_atom(NodeKind kind, std::uint32_t hash, std::string_view text);
  NodeId fixed_atom(std::size_t index) const { return kFirstAtom + static_cast<NodeId>(index); }

  StateGraph graph_;
  PagedList<Node> atoms_;
  TextTable strings_;  // of atoms
  TextTable globals_;
  std::int64_t end_offset_ = 0;
};

}  // namespace tenplex
