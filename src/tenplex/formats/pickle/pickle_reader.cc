// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PickleMachine: Python's unpickling machine on NodeIds. A Frame is open from the moment the class of a hooked object
// is pushed until the object is complete or leaves its place on the stack:
//
//   stack   … other │ class        (frame: position, sizes of the graph)
//           … other │ object       NEWOBJ; nodes of its state follow
//           … other │ token        BUILD: hook ran, nodes since the frame began dropped, memo entries rewritten
#include "tenplex/formats/pickle/pickle_reader.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstdlib>
#include <deque>

#include "tenplex/formats/pickle/pickle_input.h"
#include "tenplex/formats/pickle/pickle_text.h"

namespace tenplex {
namespace {

constexpr NodeId kDropped = kNoNode - 1;  // memo: a part of an object that a hook replaced
constexpr std::size_t kMaxFrames = 1000;
constexpr std::size_t kAtomNone = 0;
constexpr std::size_t kAtomFalse = 1;
constexpr std::size_t kAtomTrue = 2;
constexpr std::size_t kAtomEmptyTuple = 3;
constexpr std::size_t kAtomFirstInt = 4;

}  // namespace

class PickleMachine {
 public:
  PickleMachine(PickleInput& input, const PickleOptions& options) : input_(input), options_(options) {}

  Result<PickleDocument> run() {
    while (!stopped_) {
      op_offset_ = input_.position();
      auto step = next_opcode();
      if (!step) return std::move(step).error().with_context(fmt::format("pickle byte {}", op_offset_));
    }
    document_.end_offset_ = input_.position();
    return std::move(document_);
  }

 private:
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
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Result<void> need(std::size_t count) const {
    if (stack_.size() < floor() + count) return corrupt("the stack is empty");
    return {};
  }
  Result<void> push(NodeId id);
  void shrink(std::size_t size);
  NodeId pop() {
    const NodeId id = stack_.back();
    shrink(stack_.size() - 1);
    return id;
  }
  Result<std::vector<NodeId>> pop_to_mark();
  bool is_node(NodeId id, NodeKind kind) const { return id < kFirstToken && document_.graph_[id].kind == kind; }
  Result<void> charge_node() const;
  Result<void> push_node(Node node);
  Result<void> push_children(NodeKind kind, std::vector<NodeId> children);
  Result<void> push_text(NodeKind kind, std::string text);
  Result<void> push_fixed(std::size_t atom) { return push(document_.fixed_atom(atom)); }

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
  Result<void> build();
  Result<void> persistent(NodeId id);
  Result<NodeId> complete(ObjectParts parts);
  NodeId replace(const Frame& frame, PickleReplacement replacement);

  PickleInput& input_;
  const PickleOptions& options_;
  PickleDocument document_;
  std::vector<NodeId> stack_;
  std::vector<std::size_t> marks_;
  std::deque<NodeId> memo_;  // grows without copying; kNoNode = not set
  std::uint64_t memo_used_ = 0;
  std::vector<std::uint32_t> recent_puts_;  // memo indexes set while a frame is open
  std::vector<Frame> frames_;
  std::vector<const PickleHook*> atom_hooks_;  // by atom
  std::int64_t op_offset_ = 0;
  std::uint64_t protocol_ = 0;
  bool stopped_ = false;
};

// ── stack ────────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::push(NodeId id) {
  const std::size_t atom = id - kFirstAtom;
  if (is_atom(id) && atom < atom_hooks_.size() && atom_hooks_[atom] != nullptr) {
    if (frames_.size() == kMaxFrames) return unsupported("objects are nested too deeply");
    frames_.push_back({stack_.size(), document_.graph_.mark(), recent_puts_.size(), atom_hooks_[atom]});
  }
  stack_.push_back(id);
  return {};
}

void PickleMachine::shrink(std::size_t size) {
  stack_.resize(size);
  while (!frames_.empty() && frames_.back().position >= size) frames_.pop_back();
  if (frames_.empty()) recent_puts_.clear();
}

Result<std::vector<NodeId>> PickleMachine::pop_to_mark() {
  if (marks_.empty()) return corrupt("there is no mark");
  std::vector<NodeId> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  shrink(marks_.back());
  marks_.pop_back();
  return items;
}

Result<void> PickleMachine::charge_node() const {
  if (document_.graph_.size() > 1024 + static_cast<std::size_t>(input_.position()) / 2)
    return unsupported("the pickle makes more objects than its size justifies");
  return {};
}

Result<void> PickleMachine::push_node(Node node) {
  TENPLEX_TRY(charge_node());
  return push(document_.graph_.add(std::move(node)));
}

Result<void> PickleMachine::push_children(NodeKind kind, std::vector<NodeId> children) {
  if (kind == NodeKind::kTuple && children.empty()) return push_fixed(kAtomEmptyTuple);
  Node node;
  node.kind = kind;
  node.children = std::move(children);
  return push_node(std::move(node));
}

Result<void> PickleMachine::push_text(NodeKind kind, std::string text) {
  if (kind == NodeKind::kString) {
    if (!is_pickle_utf8(text)) return corrupt("text is not UTF-8");
    return push(document_.text_atom(kind, std::move(text)));
  }
  Node node;
  node.kind = kind;
  node.text = std::move(text);
  return push_node(std::move(node));
}

// ── memo ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::put(std::uint64_t index) {
  TENPLEX_TRY(need(1));
  if (index > static_cast<std::uint64_t>(op_offset_)) return corrupt(fmt::format("memo index {} is too large", index));
  if (index >= memo_.size()) memo_.resize(index + 1, kNoNode);
  if (memo_[index] == kNoNode) ++memo_used_;
  memo_[index] = stack_.back();
  if (!frames_.empty()) recent_puts_.push_back(static_cast<std::uint32_t>(index));
  return {};
}

Result<void> PickleMachine::get(std::uint64_t index) {
  if (index >= memo_.size() || memo_[index] == kNoNode) return corrupt(fmt::format("memo entry {} is not set", index));
  if (memo_[index] == kDropped)
    return unsupported(fmt::format("memo entry {} is a part of an object that was read already", index));
  return push(memo_[index]);
}

Result<std::uint64_t> PickleMachine::index_line() {
  TENPLEX_ASSIGN_OR_RETURN(const std::string line, input_.take_line());
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size()) return corrupt("a memo index is no number");
  return std::uint64_t{value};
}

Result<void> PickleMachine::memo_opcode(char code) {
  std::uint64_t index = 0;
  switch (code) {
    case 'q':
    case 'h': {
      TENPLEX_ASSIGN_OR_RETURN(index, input_.take_unsigned(1));
      break;
    }
    case 'r':
    case 'j': {
      TENPLEX_ASSIGN_OR_RETURN(index, input_.take_unsigned(4));
      break;
    }
    case '\x94':
      return put(memo_used_);
    default: {  // 'p', 'g'
      TENPLEX_ASSIGN_OR_RETURN(index, index_line());
    }
  }
  return code == 'q' || code == 'r' || code == 'p' ? put(index) : get(index);
}

// ── numbers and text ─────────────────────────────────────────────────────────────────────────────────────────────────

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

Result<void> PickleMachine::number_opcode(char code) {
  Node node;
  node.kind = NodeKind::kInt;
  switch (code) {
    case 'K': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t value, input_.take_unsigned(1));
      return push_fixed(kAtomFirstInt + value);
    }
    case 'M': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t value, input_.take_unsigned(2));
      node.integer = static_cast<std::int64_t>(value);
      break;
    }
    case 'J': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t value, input_.take_unsigned(4));
      node.integer = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
      break;
    }
    case '\x8a':
    case '\x8b': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t size, input_.take_unsigned(code == '\x8a' ? 1 : 4));
      TENPLEX_ASSIGN_OR_RETURN(const std::string bytes, input_.take_string(size));
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
  int size_bytes = 0;
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
      return push_text(utf8 ? NodeKind::kString : NodeKind::kBytes, std::move(*text));
    }
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t size, input_.take_unsigned(size_bytes));
  TENPLEX_ASSIGN_OR_RETURN(std::string text, input_.take_string(size));
  // Python 2 strings may be anything; torch reads them as UTF-8.
  if ((code == 'U' || code == 'T') && !is_pickle_utf8(text)) kind = NodeKind::kBytes;
  return push_text(kind, std::move(text));
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
      const std::size_t count = static_cast<unsigned char>(code) - 0x84U;
      TENPLEX_TRY(need(count));
      std::vector<NodeId> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
      shrink(stack_.size() - count);
      return push_children(NodeKind::kTuple, std::move(items));
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
  TENPLEX_ASSIGN_OR_RETURN(std::vector<NodeId> items, pop_to_mark());
  switch (code) {
    case 't':
      return push_children(NodeKind::kTuple, std::move(items));
    case 'l':
      return push_children(NodeKind::kList, std::move(items));
    case 'd':
      if (items.size() % 2 != 0) return corrupt("a dict key has no value");
      return push_children(NodeKind::kDict, std::move(items));
    case '\x91':
      return push_children(NodeKind::kFrozenSet, std::move(items));
    case '\x90':
      return add_items(items);
    default:  // 'e', 'u'
      return extend(items, code == 'u');
  }
}

// ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::push_global(std::string module, std::string name) {
  if (module.empty() || name.empty()) return corrupt("a global has no name");
  if (module.find('\n') != std::string::npos || name.find('\n') != std::string::npos || !is_pickle_utf8(module) ||
      !is_pickle_utf8(name))
    return corrupt("the name of a global is no text");
  if (protocol_ < 3) std::tie(module, name) = python3_global(std::move(module), std::move(name));
  const NodeId id = document_.text_atom(NodeKind::kGlobal, fmt::format("{}\n{}", module, name));
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
    TENPLEX_ASSIGN_OR_RETURN(stack_[place], complete(std::move(parts)));
    return {};
  }
  TENPLEX_TRY(charge_node());
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
Result<NodeId> PickleMachine::complete(ObjectParts parts) {
  const Frame frame = frames_.back();
  TENPLEX_ASSIGN_OR_RETURN(PickleReplacement replacement, frame.hook->complete(document_, parts));
  frames_.pop_back();
  NodeId id = frame.object;
  if (replacement.kind != PickleReplacement::Kind::kKeep) {
    id = replace(frame, std::move(replacement));
  } else if (id == kNoNode) {
    id = document_.graph_.add_object(std::move(parts));
  }
  if (frames_.empty()) recent_puts_.clear();
  return id;
}

NodeId PickleMachine::replace(const Frame& frame, PickleReplacement replacement) {
  StateGraph& graph = document_.graph_;
  if (!frame.pinned) graph.rollback(frame.mark);
  NodeId id = kFirstToken | replacement.token_value;
  if (replacement.kind == PickleReplacement::Kind::kNode) id = graph.add(std::move(replacement.node_value));
  if (replacement.kind == PickleReplacement::Kind::kTensor) id = graph.add_tensor(std::move(replacement.view));
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
      TENPLEX_ASSIGN_OR_RETURN(std::string line, input_.take_line());
      if (!is_pickle_utf8(line)) return corrupt("a persistent id is not UTF-8");
      return persistent(document_.text_atom(NodeKind::kString, std::move(line)));
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

// ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<void> PickleMachine::stack_opcode(char code) {
  switch (code) {
    case '(':
      marks_.push_back(stack_.size());
      return {};
    case '0':  // POP takes a mark if that is on top
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
        return {};
      }
      TENPLEX_TRY(need(1));
      pop();
      return {};
    case '1':
      TENPLEX_TRY(pop_to_mark());
      return {};
    case '2':
      TENPLEX_TRY(need(1));
      return push(stack_.back());
    case '\x80': {
      TENPLEX_ASSIGN_OR_RETURN(protocol_, input_.take_unsigned(1));
      if (protocol_ > 5) return unsupported(fmt::format("pickle protocol {}", protocol_));
      return {};
    }
    case '\x95': {
      TENPLEX_ASSIGN_OR_RETURN(const std::uint64_t size, input_.take_unsigned(8));
      if (size > static_cast<std::uint64_t>(input_.remaining())) return corrupt("a frame is longer than the pickle");
      return {};
    }
    default:  // '.'
      if (stack_.size() != 1 || !marks_.empty()) return corrupt("the pickle stops with an untidy stack");
      document_.graph_.root = stack_.back();
      stopped_ = true;
      return {};
  }
}

Result<void> PickleMachine::next_opcode() {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view byte, input_.take(1));
  const char code = byte[0];
  switch (code) {
    case 'N':
      return push_fixed(kAtomNone);
    case '\x88':
      return push_fixed(kAtomTrue);
    case '\x89':
      return push_fixed(kAtomFalse);
    case 'K':
    case 'M':
    case 'J':
    case '\x8a':
    case '\x8b':
    case 'G':
    case 'I':
    case 'L':
    case 'F':
      return number_opcode(code);
    case '\x8c':
    case 'U':
    case 'X':
    case 'T':
    case '\x8d':
    case 'C':
    case 'B':
    case '\x8e':
    case '\x96':
    case 'S':
    case 'V':
      return text_opcode(code);
    case '}':
    case ']':
    case '\x8f':
    case ')':
    case '\x85':
    case '\x86':
    case '\x87':
    case 'a':
    case 's':
    case 't':
    case 'l':
    case 'd':
    case '\x91':
    case '\x90':
    case 'e':
    case 'u':
      return container_opcode(code);
    case 'R':
    case '\x81':
    case '\x92':
    case 'b':
    case 'Q':
    case 'P':
    case '\x93':
    case 'c':
      return object_opcode(code);
    case 'q':
    case 'h':
    case 'r':
    case 'j':
    case '\x94':
    case 'p':
    case 'g':
      return memo_opcode(code);
    case '(':
    case '0':
    case '1':
    case '2':
    case '\x80':
    case '\x95':
    case '.':
      return stack_opcode(code);
    default:
      return corrupt(fmt::format("0x{:02x} is no known pickle opcode", static_cast<unsigned char>(code)));
  }
}

PickleReplacement PickleReplacement::token(std::uint32_t value) {
  TENPLEX_CHECK(value < (kFirstAtom - kFirstToken));
  PickleReplacement replacement;
  replacement.kind = Kind::kToken;
  replacement.token_value = value;
  return replacement;
}

PickleReplacement PickleReplacement::node(Node value) {
  TENPLEX_CHECK(value.children.empty() && value.kind < NodeKind::kList);
  PickleReplacement replacement;
  replacement.kind = Kind::kNode;
  replacement.node_value = std::move(value);
  return replacement;
}

PickleReplacement PickleReplacement::tensor(TensorView view) {
  PickleReplacement replacement;
  replacement.kind = Kind::kTensor;
  replacement.view = std::move(view);
  return replacement;
}

Result<PickleDocument> read_pickle(const ByteSource& source, std::int64_t offset, std::int64_t size,
                                   const PickleOptions& options) {
  if (offset < 0 || size < 0 || offset > source.size() || size > source.size() - offset)
    return corrupt(fmt::format("a pickle at [{}, +{}) lies outside the {} bytes of '{}'", offset, size, source.size(),
                               source.name()));
  PickleInput input(source, offset, size);
  return PickleMachine(input, options).run();
}

Result<PickleDocument> read_pickle(ByteSpan bytes, const PickleOptions& options) {
  PickleInput input(bytes);
  return PickleMachine(input, options).run();
}

}  // namespace tenplex
