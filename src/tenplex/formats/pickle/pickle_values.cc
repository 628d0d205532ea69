// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>
#include <cstdlib>

#include "tenplex/formats/pickle/pickle_machine.h"
#include "tenplex/formats/pickle/pickle_text.h"

namespace tenplex {
namespace {

Result<Node> decimal_node(std::string line) {
  Node node;
  if (line == "00" || line == "01") {
    node.kind = NodeKind::kBool;
    node.boolean = line == "01";
    return node;
  }
  if (line.ends_with('L')) line.pop_back();
  auto number = integer_of_decimal(line);
  if (!number) return corrupt("an integer is no decimal number");
  return std::move(*number);
}

Result<Node> float_node(const std::string& line) {
  Node node;
  node.kind = NodeKind::kFloat;
  char* end = nullptr;
  node.real = std::strtod(line.c_str(), &end);
  if (line.empty() || end != line.c_str() + line.size()) return corrupt("a float is no number");
  return node;
}

}  // namespace

// ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::charge_node() const {
  if (document_.graph_.size() > 1024 + static_cast<std::size_t>(input_.position()) / 2)
    return unsupported("the pickle makes more objects than its size justifies");
  return {};
}

Result<void> PickleMachine::push_node(Node node) {
  TENPLEX_TRY(charge_node());
  return push(document_.graph_.add(std::move(node)));
}

Result<void> PickleMachine::push_int(std::int64_t value) {
  TENPLEX_TRY(charge_node());
  const NodeId id = document_.graph_.add_new(NodeKind::kInt);
  document_.graph_[id].integer = value;
  return push(id);
}

Result<void> PickleMachine::push_children(NodeKind kind, std::span<const NodeId> children) {
  if (kind == NodeKind::kTuple && children.empty()) return push_fixed(kAtomEmptyTuple);
  TENPLEX_TRY(charge_node());
  const NodeId id = document_.graph_.add_new(kind);
  std::vector<NodeId>& place = document_.graph_[id].children;
  if (!spare_.empty()) {
    place = std::move(spare_.back());
    spare_.pop_back();
  }
  place.assign(children.begin(), children.end());
  return push(id);
}

Result<void> PickleMachine::push_own_text(NodeKind kind, std::string text) {
  if (kind == NodeKind::kString && !is_pickle_utf8(text)) return corrupt("text is not UTF-8");
  Node node;
  node.kind = kind;
  node.text = std::move(text);
  return push_node(std::move(node));
}

Result<void> PickleMachine::push_text(NodeKind kind, std::string_view text) {
  if (kind == NodeKind::kString && text.size() <= options_.max_atom_text) {
    const std::uint32_t hash = document_.table(kind).hash(text);
    if (const NodeId known = document_.find_atom(kind, hash, text); known != kNoNode) return push(known);
    if (text.size() > kMaxAtomText) return unsupported("a text of 4 GiB or more");
    if (!is_pickle_utf8(text)) return corrupt("text is not UTF-8");
    return push(document_.add_atom(kind, hash, text));
  }
  return push_own_text(kind, std::string(text));
}

// ── numbers and text ─────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::number_opcode(char code) {
  Node node;
  switch (code) {
    case 'K': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t value, input_.take_unsigned(1));
      return push_fixed(kAtomFirstInt + value);
    }
    case 'M': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t value, input_.take_unsigned(2));
      return push_int(static_cast<std::int64_t>(value));
    }
    case 'J': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t value, input_.take_unsigned(4));
      return push_int(static_cast<std::int32_t>(static_cast<std::uint32_t>(value)));
    }
    case '\x8a':
    case '\x8b': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t size, input_.take_unsigned(code == '\x8a' ? 1 : 4));
      TENPLEX_ASSIGN_OR_RETURN(const std::string_view bytes, input_.take(size));
      node = integer_of_bytes(bytes);
      break;
    }
    case 'G': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t bits, input_.take_unsigned(8));
      node.kind = NodeKind::kFloat;
      node.real = std::bit_cast<double>(__builtin_bswap64(bits));
      break;
    }
    default: {  // 'I', 'L', 'F'
      TENPLEX_ASSIGN_OR_RETURN(std::string line, input_.take_line());
      TENPLEX_ASSIGN_OR_RETURN(node, code == 'F' ? float_node(line) : decimal_node(std::move(line)));
    }
  }
  return push_node(std::move(node));
}

Result<void> PickleMachine::text_opcode(char code) {
  std::size_t size_bytes = 0;
  NodeKind kind = NodeKind::kString;
  switch (code) {
    case '\x8c':  // SHORT_BINUNICODE
    case 'U':     // SHORT_BINSTRING
      size_bytes = 1;
      break;
    case 'X':  // BINUNICODE
    case 'T':  // BINSTRING
      size_bytes = 4;
      break;
    case '\x8d':  // BINUNICODE8
      size_bytes = 8;
      break;
    case 'C':     // SHORT_BINBYTES
    case 'B':     // BINBYTES
    case '\x8e':  // BINBYTES8
      size_bytes = code == 'C' ? 1 : code == 'B' ? 4 : 8;
      kind = NodeKind::kBytes;
      break;
    case '\x96':  // BYTEARRAY8
      size_bytes = 8;
      kind = NodeKind::kByteArray;
      break;
    default: {  // 'S', 'V'
      TENPLEX_ASSIGN_OR_RETURN(const std::string line, input_.take_line());
      auto text = code == 'S' ? decode_quoted_bytes(line) : decode_unicode_escape(line);
      if (!text) return corrupt("text has a bad escape");
      const bool utf8 = is_pickle_utf8(*text);
      return push_text(utf8 ? NodeKind::kString : NodeKind::kBytes, *text);
    }
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t size, input_.take_unsigned(size_bytes));
  if (code != 'U' && code != 'T' && (kind != NodeKind::kString || size > options_.max_atom_text)) {
    TENPLEX_ASSIGN_OR_RETURN(std::string own, input_.take_string(size));
    return push_own_text(kind, std::move(own));
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, input_.take(size));
  // Python 2 strings may be anything; torch reads them as UTF-8.
  if ((code == 'U' || code == 'T') && !is_pickle_utf8(text)) kind = NodeKind::kBytes;
  return push_text(kind, text);
}

// ── containers ───────────────────────────────────────────────────────────────────────────────────────────────────────

// A container older than an open frame changes: it may now refer to the frame's nodes.
void PickleMachine::touch(NodeId target) {
  for (auto frame = frames_.rbegin(); frame != frames_.rend() && frame->mark.nodes > target; ++frame)
    frame->pinned = true;
}

// Adds items (key, value, … if `pairs`) to the container on top of the stack.
Result<void> PickleMachine::extend(std::span<const NodeId> items, bool pairs) {
  TENPLEX_TRY(need(1));
  if (pairs && items.size() % 2 != 0) return corrupt("a dict key has no value");
  const NodeId target = stack_.back();
  std::vector<NodeId>* children = nullptr;
  if (is_node(target, pairs ? NodeKind::kDict : NodeKind::kList)) children = &document_.graph_[target].children;
  if (is_node(target, NodeKind::kObject)) {
    ObjectParts& parts = document_.graph_.object(target);
    children = pairs ? &parts.dict_items : &parts.list_items;
  }
  if (children == nullptr) return corrupt(pairs ? "items for what is no dict" : "items for what is no list");
  touch(target);
  children->insert(children->end(), items.begin(), items.end());
  return {};
}

Result<void> PickleMachine::add_items(std::span<const NodeId> items) {
  TENPLEX_TRY(need(1));
  const NodeId target = stack_.back();
  if (!is_node(target, NodeKind::kSet)) return corrupt("items for what is no set");
  touch(target);
  std::vector<NodeId>& children = document_.graph_[target].children;
  children.insert(children.end(), items.begin(), items.end());
  return {};
}

Result<void> PickleMachine::container_opcode(char code) {
  switch (code) {
    case '}':
      return push_children(NodeKind::kDict, {});
    case ']':
      return push_children(NodeKind::kList, {});
    case '\x8f':
      return push_children(NodeKind::kSet, {});
    case ')':
      return push_fixed(kAtomEmptyTuple);
    case '\x85':
    case '\x86':
    case '\x87': {
      TENPLEX_ASSIGN_OR_RETURN(const auto items, pop_items(static_cast<unsigned char>(code) - 0x84U));
      return push_children(NodeKind::kTuple, items);
    }
    case 'a': {
      TENPLEX_TRY(need(2));
      const NodeId item = pop();
      return extend({&item, 1}, false);
    }
    case 's': {
      TENPLEX_TRY(need(3));
      const NodeId value = pop();
      const NodeId pair[] = {pop(), value};
      return extend(pair, true);
    }
    default:
      break;
  }
  TENPLEX_ASSIGN_OR_RETURN(const auto items, pop_to_mark());
  switch (code) {
    case 't':
      return push_children(NodeKind::kTuple, items);
    case 'l':
      return push_children(NodeKind::kList, items);
    case 'd':
      if (items.size() % 2 != 0) return corrupt("a dict key has no value");
      return push_children(NodeKind::kDict, items);
    case '\x91':
      return push_children(NodeKind::kFrozenSet, items);
    case '\x90':
      return add_items(items);
    default:  // 'e', 'u'
      return extend(items, code == 'u');
  }
}

}  // namespace tenplex
