// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PickleDocument: what a pickle says, as nodes. Three ranges of NodeId:
//
//   0x00000000 …  nodes of graph(): containers, objects, tensors, numbers
//   0x80000000 …  tokens: what a hook put in the place of an object; only the hook's owner knows what they mean
//   0xC0000000 …  atoms: text, globals, None, True, False, (), 0 … 255; each distinct value is stored once
//
// The const functions answer for all three. into_graph() turns atoms into ordinary nodes and gives a plain StateGraph.
//
// Resource with value-like behaviour: movable. Threads: const calls are safe together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/base/text_table.h"
#include "tenplex/formats/pickle/text_arena.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

inline constexpr NodeId kFirstToken = 0x80000000;
inline constexpr NodeId kFirstAtom = 0xC0000000;

inline constexpr std::size_t kMaxAtomText = 0xffffffff;  ///< bytes

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

  /// Kind of a node or atom; nothing for a token and for kNoNode.
  std::optional<NodeKind> kind(NodeId id) const {
    if (id == kNoNode || is_token(id)) return std::nullopt;
    return is_atom(id) ? atom(id).kind : graph_[id].kind;
  }
  /// The text of a kString, "module\nname" of a kGlobal, the value of a kInt or kBool; nothing for other kinds.
  std::optional<std::string_view> text(NodeId id) const { return text_of(NodeKind::kString, id); }
  std::optional<std::string_view> global(NodeId id) const { return text_of(NodeKind::kGlobal, id); }
  /// Of a kBytes or kByteArray.
  std::optional<std::string_view> bytes(NodeId id) const {
    return text_of(kind(id) == NodeKind::kByteArray ? NodeKind::kByteArray : NodeKind::kBytes, id);
  }
  std::optional<std::int64_t> integer(NodeId id) const {
    if (kind(id) != NodeKind::kInt) return std::nullopt;
    return is_atom(id) ? std::int64_t{atom(id).value} : graph_[id].integer;
  }
  std::optional<bool> boolean(NodeId id) const {
    if (kind(id) != NodeKind::kBool) return std::nullopt;
    return is_atom(id) ? atom(id).value != 0 : graph_[id].boolean;
  }
  /// Requires: kind is kObject.
  const ObjectParts& object(NodeId id) const { return graph_.object(id); }
  /// Requires: kind is kTensor or kStorage.
  TensorView view(NodeId id) const { return graph_.view(id); }

  /// True for the global `module.name`.
  bool is_global(NodeId id, std::string_view module, std::string_view name) const;
  /// True for an object whose callable is that global.
  bool is_instance(NodeId id, std::string_view module, std::string_view name) const;
  /// Children of a list, tuple, set or dict; empty for everything else.
  std::span<const NodeId> children(NodeId id) const;
  /// Value of text key `key` in a dict, or kNoNode. Cost: O(entries).
  NodeId find(NodeId dict, std::string_view key) const;
  /// The atom of that text, or kNoNode: then no such text was read, or forget_texts() was called.
  NodeId find_text(std::string_view text) const;
  /// Frees what find_text() needs; the atoms stay. Requires: no more atoms are added.
  void forget_texts() { strings_ = {}; }

  /// For persistent-id callbacks, which add nodes to it.
  StateGraph& graph() { return graph_; }
  const StateGraph& graph() const { return graph_; }

  /// The plain graph. Errors: internal if a token is left in it.
  Result<StateGraph> into_graph() &&;

 private:
  friend class PickleMachine;

  // A pickle may have millions, so they are smaller than nodes.
  struct Atom {
    const char* text = nullptr;  // in texts_
    std::uint32_t value = 0;     // of a number; bytes of a text
    NodeKind kind = NodeKind::kNone;

    std::string_view text_view() const { return {text, value}; }
  };

  const Atom& atom(NodeId id) const { return atoms_[id - kFirstAtom]; }
  std::optional<std::string_view> text_of(NodeKind kind, NodeId id) const;
  void drop_unused_texts();
  Node node_of(NodeId atom) const;
  const TextTable& table(NodeKind kind) const { return kind == NodeKind::kGlobal ? globals_ : strings_; }
  NodeId find_atom(NodeKind kind, std::uint32_t hash, std::string_view text) const;
  /// Requires: find_atom() finds none; text.size() <= kMaxAtomText.
  NodeId add_atom(NodeKind kind, std::uint32_t hash, std::string_view text);
  NodeId fixed_atom(std::size_t index) const { return kFirstAtom + static_cast<NodeId>(index); }

  StateGraph graph_;
  PagedList<Atom> atoms_;
  TextArena texts_;    // of atoms
  TextTable strings_;  // of atoms
  TextTable globals_;
  std::int64_t end_offset_ = 0;
};

}  // namespace tenplex
