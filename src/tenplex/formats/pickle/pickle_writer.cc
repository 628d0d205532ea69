// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_writer.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>
#include <unordered_map>
#include <vector>

#include "tenplex/formats/pickle/pickle_text.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxMemoText = 256;  // longer text hardly repeats

}  // namespace

PickleWriter::PickleWriter(int protocol) : protocol_(protocol) {
  TENPLEX_CHECK(protocol == 2 || protocol == 4);
  op('\x80');
  op(static_cast<char>(protocol));
}

std::string PickleWriter::take() {
  std::string taken = std::move(out_);
  out_.clear();
  return taken;
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  std::array<char, 8> little;
  for (std::size_t byte = 0; byte < little.size(); ++byte)
    little[byte] = static_cast<char>((value >> (8 * byte)) & 0xff);
  out_.append(little.data(), static_cast<std::size_t>(bytes));
}

// An opcode and its argument of at most 4 bytes.
void PickleWriter::op_with(char code, std::uint64_t argument, int bytes) {
  little_endian((argument << 8) | static_cast<unsigned char>(code), bytes + 1);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value < 256) {
    op_with('K', static_cast<std::uint64_t>(value), 1);
  } else if (value >= 0 && value < 65536) {
    op_with('M', static_cast<std::uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    op_with('J', static_cast<std::uint64_t>(value), 4);
  } else {
    std::string bytes(8, '\0');
    for (std::size_t byte = 0; byte < 8; ++byte)
      bytes[byte] = static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * byte)) & 0xff);
    const char sign = value < 0 ? '\xff' : '\0';
    while (bytes.size() > 1 && bytes.back() == sign && ((bytes[bytes.size() - 2] & 0x80) != 0) == (value < 0))
      bytes.pop_back();
    big_integer(bytes);
  }
}

void PickleWriter::big_integer(std::string_view bytes) {
  op(bytes.size() < 256 ? '\x8a' : '\x8b');
  little_endian(bytes.size(), bytes.size() < 256 ? 1 : 4);
  out_ += bytes;
}

void PickleWriter::real(double value) {
  op('G');
  little_endian(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)), 8);
}

void PickleWriter::begin_unicode(std::size_t size_bytes) {
  if (protocol_ >= 4 && size_bytes < 256) {
    op_with('\x8c', size_bytes, 1);
  } else if (size_bytes <= 0xffffffff) {
    op('X');
    little_endian(size_bytes, 4);
  } else {
    op('\x8d');
    little_endian(size_bytes, 8);
  }
}

void PickleWriter::unicode(std::string_view value) {
  begin_unicode(value.size());
  out_ += value;
}

void PickleWriter::text(std::string_view value) {
  if (value.size() > kMaxMemoText) return unicode(value);
  const auto [entry, added] = texts_.try_emplace(std::string(value), memo_size_);
  if (!added) return get(entry->second);
  unicode(value);
  put();
}

void PickleWriter::text_once(std::string_view value) { unicode(value); }

void PickleWriter::bytes_value(std::string_view value) {
  if (protocol_ >= 4) {
    const int size_bytes = value.size() < 256 ? 1 : value.size() <= 0xffffffff ? 4 : 8;
    op(size_bytes == 1 ? 'C' : size_bytes == 4 ? 'B' : '\x8e');
    little_endian(value.size(), size_bytes);
    out_ += value;
  } else if (value.empty()) {
    global("builtins", "bytes");
    empty_tuple();
    reduce();
  } else {
    global("_codecs", "encode");
    begin_unicode(utf8_size_of_latin1(value));
    append_utf8_of_latin1(value, &out_);
    text("latin1");
    tuple(2);
    reduce();
  }
}

void PickleWriter::byte_array(std::string_view value) {
  global("builtins", "bytearray");
  if (value.empty()) {
    empty_tuple();
  } else {
    bytes_value(value);
    tuple(1);
  }
  reduce();
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  const auto [entry, added] = globals_.try_emplace(fmt::format("{}\n{}", module, name), 0);
  if (!added) return get(entry->second);
  TENPLEX_CHECK(is_global_name(entry->first));
  if (protocol_ >= 4) {
    text(module);
    text(name);
    op('\x93');
  } else if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    global("builtins", "getattr");  // protocol 2 has no names below a class
    global(module, name.substr(0, dot));
    text(name.substr(dot + 1));
    tuple(2);
    reduce();
  } else {
    op('c');
    out_.append(python2_module(module)).append("\n").append(name).append("\n");
  }
  globals_[fmt::format("{}\n{}", module, name)] = put();
}

void PickleWriter::tuple(int items) {
  TENPLEX_CHECK(items >= 1 && items <= 3);
  op(static_cast<char>(0x84 + items));
}

std::uint32_t PickleWriter::put() {
  if (protocol_ >= 4) {
    op('\x94');
  } else {
    op(memo_size_ < 256 ? 'q' : 'r');
    little_endian(memo_size_, memo_size_ < 256 ? 1 : 4);
  }
  return memo_size_++;
}

void PickleWriter::get(std::uint32_t index) { index < 256 ? op_with('h', index, 1) : op_with('j', index, 4); }

// ── graphs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

constexpr std::size_t kBatch = 1000;  // as Python: items per APPENDS or SETITEMS
constexpr std::size_t kLargeText = 64 << 10;
constexpr std::size_t kRoomAround = 16 << 10;  // for what an archive puts around the pickle
constexpr std::size_t kOtherBytes = 256;  // more than a node without large text takes; untouched memory costs nothing

class GraphWriter {
 public:
  GraphWriter(PickleWriter& writer, const StateGraph& graph, const PickleWriteOptions& options)
      : writer_(writer), graph_(graph), options_(options) {}

  Result<void> run(NodeId node) {
    count_references(node);
    todo_.push_back({Step::kNode, node});
    while (!todo_.empty()) {
      Task& task = todo_.back();
      if (task.step == Step::kListItems || task.step == Step::kDictItems || task.step == Step::kSetItems) {
        next_item(task);
        continue;
      }
      const Task done = task;
      todo_.pop_back();
      if (done.step == Step::kNode) {
        TENPLEX_TRY(begin(canonical(done.node)));
      } else {
        finish(done);
      }
    }
    return {};
  }

 private:
  enum class Step : std::uint8_t { kNode, kListItems, kDictItems, kSetItems, kTuple, kCall, kBuild, kSetCall };
  struct Task {
    Step step;
    NodeId node;
    std::size_t next = 0;
  };

  bool is_elsewhere(NodeId node) const { return node != root_ && options_.is_elsewhere && options_.is_elsewhere(node); }

  NodeId canonical(NodeId node) const {
    if (graph_[node].kind != NodeKind::kTensor) return node;
    const auto found = first_of_object_.find(graph_.view(node).object);
    return found == first_of_object_.end() ? node : found->second;
  }

  // Which other nodes need a memo entry: those met twice.
  void count_references(NodeId root) {
    root_ = root;
    std::vector<NodeId> stack{root};
    while (!stack.empty()) {
      NodeId node = stack.back();
      stack.pop_back();
      if (options_.one_value_per_object && graph_[node].kind == NodeKind::kTensor && graph_.view(node).object != 0)
        node = first_of_object_.try_emplace(graph_.view(node).object, node).first->second;
      if (++references_[node] > 1 || is_elsewhere(node)) continue;
      graph_.for_each_edge(node, [&](NodeId edge) {
        if (edge != kNoNode) stack.push_back(edge);
      });
    }
  }

  // Containers that a cycle may pass are always remembered, before their items are written.
  void remember(NodeId node) {
    const NodeKind kind = graph_[node].kind;
    const bool may_close_a_cycle =
        kind == NodeKind::kList || kind == NodeKind::kDict || kind == NodeKind::kSet || kind == NodeKind::kObject;
    if (may_close_a_cycle || references_[node] > 1) memo_.emplace(node, writer_.put());
  }

  Result<void> enter(NodeId node) {
    // A second entry is what Python does with a cycle that passes a list or dict; more never ends.
    if (++entered_[node] > 2) return unsupported("a tuple or an object's arguments contain themselves");
    return {};
  }

  void push_nodes(std::span<const NodeId> nodes) {
    for (std::size_t index = nodes.size(); index-- > 0;) todo_.push_back({Step::kNode, nodes[index]});
  }

  Result<void> begin(NodeId id);
  Result<void> write_outer(NodeId id);
  Result<void> begin_object(NodeId id);
  Result<void> begin_set(NodeId id);
  void write_scalar(const Node& node);
  Result<void> write_global(const Node& node);
  void next_item(Task& task);
  void finish(const Task& task);
  void finish_call(NodeId id);
  bool was_written_inside(NodeId id, std::size_t values);

  PickleWriter& writer_;
  const StateGraph& graph_;
  const PickleWriteOptions& options_;
  NodeId root_ = kNoNode;
  std::vector<Task> todo_;
  std::unordered_map<NodeId, std::uint32_t> references_;
  std::unordered_map<NodeId, std::uint32_t> memo_;
  std::unordered_map<NodeId, int> entered_;
  std::unordered_map<std::uint32_t, NodeId> first_of_object_;
};

/// Bytes that the large texts below a node take in its pickle.
std::size_t large_text_bytes(const StateGraph& graph, NodeId root, const PickleWriteOptions& options) {
  std::size_t bytes = 0;
  std::vector<bool> seen(graph.size(), false);
  std::vector<NodeId> todo{root};
  seen[root] = true;
  while (!todo.empty()) {
    const NodeId id = todo.back();
    todo.pop_back();
    const Node& node = graph[id];
    const bool as_text = options.protocol < 4 && (node.kind == NodeKind::kBytes || node.kind == NodeKind::kByteArray);
    if (node.text.size() >= kLargeText) bytes += as_text ? utf8_size_of_latin1(node.text) : node.text.size();
    graph.for_each_edge(id, [&](NodeId edge) {
      if (edge == kNoNode || seen[edge] || (options.is_elsewhere && options.is_elsewhere(edge))) return;
      seen[edge] = true;
      todo.push_back(edge);
    });
  }
  return bytes;
}

Result<void> GraphWriter::write_global(const Node& node) {
  // In protocol 2 a name ends at the line's end, and what follows it would be opcodes.
  if (!is_global_name(node.text)) return unsupported(fmt::format("'{}' is no name of a class or function", node.text));
  const std::size_t split = node.text.find('\n');
  writer_.global(std::string_view(node.text).substr(0, split), std::string_view(node.text).substr(split + 1));
  return {};
}

void GraphWriter::write_scalar(const Node& node) {
  switch (node.kind) {
    case NodeKind::kBool:
      return writer_.boolean(node.boolean);
    case NodeKind::kInt:
      return writer_.integer(node.integer);
    case NodeKind::kBigInt:
      return writer_.big_integer(node.text);
    case NodeKind::kFloat:
      return writer_.real(node.real);
    case NodeKind::kString:
      return writer_.text(node.text);
    default:
      return writer_.none();
  }
}

Result<void> GraphWriter::begin(NodeId id) {
  if (const auto found = memo_.find(id); found != memo_.end()) {
    writer_.get(found->second);
    return {};
  }
  const Node& node = graph_[id];
  if (is_elsewhere(id)) return write_outer(id);
  switch (node.kind) {
    case NodeKind::kBytes:
    case NodeKind::kByteArray:
      node.kind == NodeKind::kBytes ? writer_.bytes_value(node.text) : writer_.byte_array(node.text);
      remember(id);
      return {};
    case NodeKind::kList:
    case NodeKind::kDict:
      node.kind == NodeKind::kList ? writer_.empty_list() : writer_.empty_dict();
      remember(id);
      todo_.push_back({node.kind == NodeKind::kList ? Step::kListItems : Step::kDictItems, id});
      return {};
    case NodeKind::kSet:
    case NodeKind::kFrozenSet:
      return begin_set(id);
    case NodeKind::kTuple:
      if (node.children.empty()) {
        writer_.empty_tuple();
        return {};
      }
      TENPLEX_TRY(enter(id));
      if (node.children.size() > 3) writer_.mark();
      todo_.push_back({Step::kTuple, id});
      push_nodes(node.children);
      return {};
    case NodeKind::kTensor:
    case NodeKind::kStorage:
      return write_outer(id);
    case NodeKind::kObject:
      return begin_object(id);
    case NodeKind::kGlobal:
      return write_global(node);
    default:
      write_scalar(node);
      return {};
  }
}

Result<void> GraphWriter::write_outer(NodeId id) {
  if (!options_.tensor) return unsupported("a tensor inside an object that is written on its own");
  TENPLEX_TRY(options_.tensor(writer_, graph_, id));
  remember(id);
  return {};
}

Result<void> GraphWriter::begin_set(NodeId id) {
  const Node& node = graph_[id];
  if (writer_.protocol() >= 4 && node.kind == NodeKind::kSet) {
    writer_.empty_set();
    remember(id);
    todo_.push_back({Step::kSetItems, id});
    return {};
  }
  TENPLEX_TRY(enter(id));
  todo_.push_back({Step::kSetCall, id});
  if (writer_.protocol() >= 4) {
    writer_.mark();
    push_nodes(node.children);
  } else {
    writer_.global("builtins", node.kind == NodeKind::kSet ? "set" : "frozenset");
    writer_.empty_list();
    todo_.push_back({Step::kListItems, id});
  }
  return {};
}

Result<void> GraphWriter::begin_object(NodeId id) {
  TENPLEX_TRY(enter(id));
  const ObjectParts& parts = graph_.object(id);
  if (parts.callable == kNoNode || parts.arguments == kNoNode) return unsupported("an object without a class");
  todo_.push_back({Step::kCall, id});
  if (parts.keyword_arguments != kNoNode) {
    if (writer_.protocol() < 4) writer_.global("copyreg", "__newobj_ex__");
    todo_.push_back({Step::kNode, parts.keyword_arguments});
  }
  todo_.push_back({Step::kNode, parts.arguments});
  todo_.push_back({Step::kNode, parts.callable});
  return {};
}

// Writes one more item, or the end of a batch, of the container in `task`, which stays on todo_ until its end.
void GraphWriter::next_item(Task& task) {
  const Node& node = graph_[task.node];
  const bool pairs = task.step == Step::kDictItems;
  std::span<const NodeId> items = node.children;
  if (node.kind == NodeKind::kObject)
    items = pairs ? graph_.object(task.node).dict_items : graph_.object(task.node).list_items;
  const std::size_t size = pairs ? items.size() / 2 : items.size();
  if (task.next > 0 && (task.next % kBatch == 0 || task.next == size)) {
    const bool single = task.next % kBatch == 1 && task.next == size && task.step != Step::kSetItems;
    if (task.step == Step::kSetItems) writer_.add_items();
    if (task.step == Step::kListItems) single ? writer_.append() : writer_.appends();
    if (task.step == Step::kDictItems) single ? writer_.set_item() : writer_.set_items();
  }
  if (task.next == size) {
    todo_.pop_back();
    return;
  }
  if (task.next % kBatch == 0 && (size - task.next > 1 || task.step == Step::kSetItems)) writer_.mark();
  const std::size_t item = task.next++;
  if (pairs) {
    todo_.push_back({Step::kNode, items[2 * item + 1]});
    todo_.push_back({Step::kNode, items[2 * item]});
  } else {
    todo_.push_back({Step::kNode, items[item]});
  }
}

// True if a cycle wrote the node while its own parts were written: the parts (`values` of them, 0 = up to a mark) go.
bool GraphWriter::was_written_inside(NodeId id, std::size_t values) {
  const auto found = memo_.find(id);
  if (found == memo_.end()) return false;
  if (values == 0) writer_.pop_mark();
  for (; values > 0; --values) writer_.pop();
  writer_.get(found->second);
  return true;
}

void GraphWriter::finish_call(NodeId id) {
  const ObjectParts& parts = graph_.object(id);
  if (parts.keyword_arguments == kNoNode) {
    parts.new_object ? writer_.new_object() : writer_.reduce();
  } else if (writer_.protocol() >= 4) {
    writer_.new_object_ex();
  } else {
    writer_.tuple(3);
    writer_.reduce();
  }
  if (was_written_inside(id, 1)) return;
  remember(id);
  if (parts.state != kNoNode) {
    todo_.push_back({Step::kBuild, id});
    todo_.push_back({Step::kNode, parts.state});
  }
  if (!parts.dict_items.empty()) todo_.push_back({Step::kDictItems, id});
  if (!parts.list_items.empty()) todo_.push_back({Step::kListItems, id});
}

void GraphWriter::finish(const Task& task) {
  const Node& node = graph_[task.node];
  const std::size_t size = node.children.size();
  switch (task.step) {
    case Step::kTuple:
      --entered_[task.node];
      if (was_written_inside(task.node, size > 3 ? 0 : size)) return;
      size > 3 ? writer_.tuple() : writer_.tuple(static_cast<int>(size));
      return remember(task.node);
    case Step::kSetCall:
      --entered_[task.node];
      if (writer_.protocol() >= 4) {
        writer_.frozen_set();
      } else {
        writer_.tuple(1);
        writer_.reduce();
      }
      if (!was_written_inside(task.node, 1)) remember(task.node);
      return;
    case Step::kCall:
      --entered_[task.node];
      return finish_call(task.node);
    default:
      return writer_.build();
  }
}

}  // namespace

Result<void> write_node(PickleWriter& writer, const StateGraph& graph, NodeId node, const PickleWriteOptions& options) {
  return GraphWriter(writer, graph, options).run(node);
}

Result<std::string> write_pickle(const StateGraph& graph, NodeId node, const PickleWriteOptions& options) {
  PickleWriter writer(options.protocol);
  if (const std::size_t large = large_text_bytes(graph, node, options); large > 0)
    writer.expect(large + kOtherBytes * graph.size() + kRoomAround);
  TENPLEX_TRY(write_node(writer, graph, node, options));
  writer.stop();
  return writer.take();
}

}  // namespace tenplex
