// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <tuple>

#include "tenplex/formats/pickle/pickle_machine.h"
#include "tenplex/formats/pickle/pickle_text.h"

namespace tenplex {

Result<void> PickleMachine::push_global(std::string module, std::string name) {
  if (module.empty() || name.empty()) return corrupt("a global has no name");
  if (module.find('\n') != std::string::npos || name.find('\n') != std::string::npos || !is_pickle_utf8(module) ||
      !is_pickle_utf8(name))
    return corrupt("the name of a global is no text");
  if (name.front() == '.' || name.back() == '.' || name.find("..") != std::string::npos)
    return corrupt("the name of a global has an empty part");
  if (protocol_ < 3) std::tie(module, name) = python3_global(std::move(module), std::move(name));
  const std::string text = fmt::format("{}\n{}", module, name);
  if (text.size() > kMaxAtomText) return unsupported("the name of a global has 4 GiB or more");
  const std::uint32_t hash = document_.table(NodeKind::kGlobal).hash(text);
  NodeId id = document_.find_atom(NodeKind::kGlobal, hash, text);
  if (id == kNoNode) id = document_.add_atom(NodeKind::kGlobal, hash, text);
  const std::size_t atom = id - kFirstAtom;
  if (atom >= atom_hooks_.size() && !options_.hooks.empty()) {
    for (const PickleHook& hook : options_.hooks) {
      if (hook.module != module || hook.name != name) continue;
      atom_hooks_.resize(atom + 1, nullptr);
      atom_hooks_[atom] = &hook;
    }
  }
  return push(id);
}

// What a call makes that is how protocols below 3 spell bytes, and those below 5 a bytearray; nothing for other calls.
std::optional<Node> PickleMachine::called_bytes(const ObjectParts& parts) {
  if (parts.new_object) return std::nullopt;
  const bool encode = document_.is_global(parts.callable, "_codecs", "encode");
  const bool array = document_.is_global(parts.callable, "builtins", "bytearray");
  if (!encode && !array && !document_.is_global(parts.callable, "builtins", "bytes")) return std::nullopt;
  const std::span<const NodeId> arguments = document_.children(parts.arguments);
  Node node;
  node.kind = array ? NodeKind::kByteArray : NodeKind::kBytes;
  if (arguments.empty() && !encode) return node;
  const auto kind = arguments.empty() ? std::nullopt : document_.kind(arguments[0]);
  const bool from_bytes = kind == NodeKind::kBytes && arguments.size() == 1 && !encode;
  const bool from_text = kind == NodeKind::kString && arguments.size() == 2 &&
                         (document_.text(arguments[1]) == "latin1" || document_.text(arguments[1]) == "latin-1");
  if (!from_bytes && !from_text) return std::nullopt;
  const std::string_view source = document_.text_of(*kind, arguments[0]).value_or(std::string_view());
  // Python writes the text for each value anew: at most 2 bytes of UTF-8 and 1 of bytes per byte of the pickle. Copies
  // beyond that are of one text over and over; those calls stay calls.
  if (source.size() > 3 * static_cast<std::size_t>(input_.position()) - called_bytes_size_) return std::nullopt;
  called_bytes_size_ += source.size();
  auto bytes = from_text ? latin1_of_utf8(source) : std::optional<std::string>(source);
  if (!bytes) return std::nullopt;
  node.text = std::move(*bytes);
  return node;
}

// REDUCE, NEWOBJ, NEWOBJ_EX: [callable, arguments] or [class, arguments, keyword arguments] become an object.
Result<void> PickleMachine::make_object(bool new_object, bool keyword_arguments) {
  TENPLEX_TRY(need(keyword_arguments ? 3 : 2));
  ObjectParts parts;
  parts.new_object = new_object;
  if (keyword_arguments) {
    parts.keyword_arguments = pop();
    if (document_.kind(parts.keyword_arguments) != NodeKind::kDict) return corrupt("keyword arguments are no dict");
  }
  parts.arguments = pop();
  parts.callable = stack_.back();
  if (document_.kind(parts.arguments) != NodeKind::kTuple) return corrupt("the arguments of a call are no tuple");
  const auto callable_kind = document_.kind(parts.callable);
  if (callable_kind != NodeKind::kGlobal && callable_kind != NodeKind::kObject)
    return corrupt("what is called is no class or function");
  const std::size_t place = stack_.size() - 1;
  const bool hooked = !frames_.empty() && frames_.back().position == place && frames_.back().object == kNoNode;
  if (hooked && frames_.back().hook->when == PickleHook::When::kCall) {
    TENPLEX_ASSIGN_OR_RETURN(stack_[place], complete(parts));
    return {};
  }
  TENPLEX_TRY(charge_node());
  if (auto bytes = called_bytes(parts)) {
    stack_[place] = document_.graph_.add(std::move(*bytes));
    return {};
  }
  stack_[place] = document_.graph_.add_object(std::move(parts));
  if (hooked) frames_.back().object = stack_[place];
  return {};
}

Result<void> PickleMachine::build() {
  TENPLEX_TRY(need(2));
  const NodeId state = pop();
  const NodeId target = stack_.back();
  if (!is_node(target, NodeKind::kObject)) return unsupported("state is set on something that is not a plain object");
  ObjectParts& parts = document_.graph_.object(target);
  if (parts.state != kNoNode) return unsupported("state is set twice on one object");
  touch(target);
  parts.state = state;
  const std::size_t place = stack_.size() - 1;
  if (!frames_.empty() && frames_.back().position == place && frames_.back().object == target &&
      frames_.back().hook->when == PickleHook::When::kState) {
    TENPLEX_ASSIGN_OR_RETURN(stack_[place], complete(parts));
  }
  return {};
}

// Runs the hook of the innermost frame, closes the frame and returns what stands for the object.
Result<NodeId> PickleMachine::complete(const ObjectParts& parts) {
  const Frame frame = frames_.back();
  if (!frame.pinned) TENPLEX_TRY(doubled_keys_.check(document_, static_cast<NodeId>(frame.mark.nodes)));  // it goes
  TENPLEX_ASSIGN_OR_RETURN(PickleReplacement replacement, frame.hook->complete(document_, parts));
  frames_.pop_back();
  NodeId id = frame.object;
  if (replacement.kind != PickleReplacement::Kind::kKeep) {
    id = replace(frame, std::move(replacement));
  } else if (id == kNoNode) {
    id = document_.graph_.add_object(parts);
  }
  if (frames_.empty()) recent_puts_.clear();
  return id;
}

// Drops the nodes since `mark`; the memory of their children serves the next ones.
void PickleMachine::drop_nodes(const StateGraph::Mark& mark) {
  constexpr std::size_t kMaxSpares = 64;
  constexpr std::size_t kMaxSpareItems = 64;
  StateGraph& graph = document_.graph_;
  for (auto id = static_cast<NodeId>(mark.nodes); id < graph.size() && spare_.size() < kMaxSpares; ++id) {
    std::vector<NodeId>& children = graph[id].children;
    if (children.capacity() > 0 && children.capacity() <= kMaxSpareItems) spare_.push_back(std::move(children));
  }
  graph.rollback(mark);
}

NodeId PickleMachine::replace(const Frame& frame, PickleReplacement replacement) {
  StateGraph& graph = document_.graph_;
  if (!frame.pinned) drop_nodes(frame.mark);
  NodeId id = kFirstToken | replacement.token_value;
  if (replacement.kind == PickleReplacement::Kind::kTensor) id = graph.add_tensor(*replacement.view);
  std::size_t kept = frame.puts;
  for (std::size_t entry = frame.puts; entry < recent_puts_.size(); ++entry) {
    NodeId& memo = memo_[recent_puts_[entry]];
    if (memo == kDropped) continue;
    if (memo < kFirstToken && memo == frame.object) {
      memo = id;
    } else if (memo < kFirstToken && memo >= frame.mark.nodes && !frame.pinned) {
      memo = kDropped;
    }
    if (memo < kFirstToken) recent_puts_[kept++] = recent_puts_[entry];  // an outer frame may drop it
  }
  recent_puts_.resize(kept);
  return id;
}

Result<void> PickleMachine::persistent(NodeId id) {
  if (!options_.persistent_id) return unsupported("the pickle refers to data outside it (a persistent id)");
  TENPLEX_ASSIGN_OR_RETURN(const NodeId node, options_.persistent_id(document_, id));
  return push(node);
}

Result<void> PickleMachine::object_opcode(char code) {
  switch (code) {
    case 'R':
      return make_object(false, false);
    case '\x81':
      return make_object(true, false);
    case '\x92':
      return make_object(true, true);
    case 'b':
      return build();
    case 'Q':
      TENPLEX_TRY(need(1));
      return persistent(pop());
    case 'P': {
      TENPLEX_ASSIGN_OR_RETURN(const std::string line, input_.take_line());
      TENPLEX_TRY(push_text(NodeKind::kString, line));
      return persistent(pop());
    }
    case '\x93': {
      TENPLEX_TRY(need(2));
      const auto name = document_.text(stack_.back());
      const auto module = document_.text(stack_[stack_.size() - 2]);
      if (!name || !module) return corrupt("the name of a global is no text");
      std::string module_copy(*module);
      std::string name_copy(*name);
      shrink(stack_.size() - 2);
      return push_global(std::move(module_copy), std::move(name_copy));
    }
    default: {  // 'c'
      TENPLEX_ASSIGN_OR_RETURN(std::string module, input_.take_line());
      TENPLEX_ASSIGN_OR_RETURN(std::string name, input_.take_line());
      return push_global(std::move(module), std::move(name));
    }
  }
}

}  // namespace tenplex
