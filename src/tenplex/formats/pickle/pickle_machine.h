// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PickleMachine: Python's unpickling machine on NodeIds, internal to read_pickle(). Its parts: the stack, the memo and
// the opcodes in pickle_machine.cc, numbers, text and containers in pickle_values.cc, calls and hooks in
// pickle_objects.cc.
//
// A Frame is open from the moment the class of a hooked object is pushed until the object is complete or leaves its
// place on the stack:
//
//   stack   … other │ class        (frame: position, sizes of the graph)
//           … other │ object       NEWOBJ; nodes of its state follow
//           … other │ token        BUILD: hook ran, nodes since the frame began dropped, memo entries rewritten
//
// Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/pickle/doubled_keys.h"
#include "tenplex/formats/pickle/pickle_document.h"
#include "tenplex/formats/pickle/pickle_input.h"
#include "tenplex/formats/pickle/pickle_reader.h"

namespace tenplex {

class PickleMachine {
 public:
  PickleMachine(PickleInput& input, const PickleOptions& options) : input_(input), options_(options) {}
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;

  /// Called once. Errors: as read_pickle().
  Result<PickleDocument> run();

 private:
  // Atoms that every document has, in its order.
  static constexpr std::size_t kAtomNone = 0;
  static constexpr std::size_t kAtomFalse = 1;
  static constexpr std::size_t kAtomTrue = 2;
  static constexpr std::size_t kAtomEmptyTuple = 3;
  static constexpr std::size_t kAtomFirstInt = 4;
  static constexpr NodeId kDropped = kNoNode - 1;  // memo: a part of an object that a hook replaced
  static constexpr std::size_t kMaxFrames = 1000;

  struct Frame {
    std::size_t position;   // of the class, later the object, on the stack
    StateGraph::Mark mark;  // nodes from here on belong to the object
    std::size_t puts;       // size of recent_puts_ when it began
    const PickleHook* hook;
    NodeId object = kNoNode;  // after NEWOBJ or REDUCE
    bool pinned = false;      // an older container may refer to the object's nodes: keep them
  };

  Result<void> next_opcode();
  Result<void> number_opcode(char code);
  Result<void> text_opcode(char code);
  Result<void> container_opcode(char code);
  Result<void> object_opcode(char code);
  Result<void> memo_opcode(char code);
  Result<void> stack_opcode(char code);

  // ── stack ──
  Result<void> need(std::size_t count) const {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + count) return corrupt("the stack is empty");
    return {};
  }
  Result<void> push(NodeId id) {
    const std::size_t atom = id - kFirstAtom;
    if (is_atom(id) && atom < atom_hooks_.size() && atom_hooks_[atom] != nullptr)
      TENPLEX_TRY(open_frame(*atom_hooks_[atom]));
    stack_.push_back(id);
    return {};
  }
  Result<void> open_frame(const PickleHook& hook);
  void shrink(std::size_t size);
  NodeId pop() {
    const NodeId id = stack_.back();
    shrink(stack_.size() - 1);
    return id;
  }
  // The top `count` values, or all down to the mark, which leave the stack; valid until the next call.
  Result<std::span<const NodeId>> pop_items(std::size_t count);
  Result<std::span<const NodeId>> pop_to_mark();
  std::span<const NodeId> take_items(std::size_t size);
  bool is_node(NodeId id, NodeKind kind) const { return id < kFirstToken && document_.graph_[id].kind == kind; }
  Result<void> charge_node() const;
  Result<void> push_node(Node node);
  Result<void> push_int(std::int64_t value);
  Result<void> push_children(NodeKind kind, std::span<const NodeId> children);
  Result<void> push_text(NodeKind kind, std::string_view text);
  Result<void> push_own_text(NodeKind kind, std::string text);  // as a node
  Result<void> push_fixed(std::size_t atom) {
    stack_.push_back(document_.fixed_atom(atom));  // no hook is of these
    return {};
  }

  // ── memo ──
  Result<void> put(std::uint64_t index);
  Result<void> get(std::uint64_t index);
  Result<std::uint64_t> index_line();

  // ── containers and objects ──
  Result<void> extend(std::span<const NodeId> items, bool pairs);
  Result<void> add_items(std::span<const NodeId> items);
  void touch(NodeId target);
  Result<void> push_global(std::string module, std::string name);
  Result<void> make_object(bool new_object, bool keyword_arguments);
  std::optional<Node> called_bytes(const ObjectParts& parts);
  Result<void> build();
  Result<void> persistent(NodeId id);
  Result<NodeId> complete(const ObjectParts& parts);
  NodeId replace(const Frame& frame, PickleReplacement replacement);
  void drop_nodes(const StateGraph::Mark& mark);

  PickleInput& input_;
  const PickleOptions& options_;
  PickleDocument document_;
  std::vector<NodeId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<NodeId> items_;               // what pop_items() and pop_to_mark() gave last
  std::vector<std::vector<NodeId>> spare_;  // memory of dropped children
  PagedList<NodeId> memo_;                  // kNoNode = not set
  std::uint64_t memo_used_ = 0;
  std::vector<std::uint32_t> recent_puts_;  // memo indexes set while a frame is open
  std::vector<Frame> frames_;
  DoubledKeys doubled_keys_;
  std::vector<const PickleHook*> atom_hooks_;  // by atom
  std::size_t called_bytes_size_ = 0;          // copied by called_bytes(); ≤ 3 × bytes read
  std::int64_t op_offset_ = 0;
  std::uint64_t protocol_ = 0;
  bool stopped_ = false;
};

}  // namespace tenplex
