// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// flatten() and tensor_names(): the ways from the root to the leaves. Containers may be shared, so the number of ways
// can grow beyond the number of nodes; a budget refuses graphs made to explode.
// Source: torch/distributed/checkpoint/_traverse.py (traverse_state_dict).
#include <fmt/format.h>

#include <unordered_set>

#include "tenplex/formats/pickle/text_table.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // Python's own recursion limit: its pickler writes nothing deeper

// Which lists DCP opens: those with a tensor, a dict or such a list in them. Lazily, once per list.
class OpenLists {
 public:
  explicit OpenLists(const StateGraph& graph) : graph_(graph), states_(graph.size(), State::kUnknown) {}

  Result<bool> is_open(NodeId list) {
    if (states_[list] == State::kUnknown) TENPLEX_TRY(decide(list));
    return states_[list] == State::kOpen;
  }

 private:
  enum class State : std::uint8_t { kUnknown, kInProgress, kClosed, kOpen };
  struct Level {
    NodeId list;
    std::size_t next = 0;
  };

  Result<void> decide(NodeId start) {
    std::vector<Level> levels{{start}};
    states_[start] = State::kInProgress;
    while (!levels.empty()) {
      const NodeId list = levels.back().list;
      const auto items = *list_items(graph_, list);
      if (states_[list] == State::kOpen || levels.back().next == items.size()) {
        if (states_[list] != State::kOpen) states_[list] = State::kClosed;
        levels.pop_back();
        if (!levels.empty() && states_[list] == State::kOpen) states_[levels.back().list] = State::kOpen;
        continue;
      }
      TENPLEX_TRY(look_at(items[levels.back().next++], list, levels));
    }
    return {};
  }

  Result<void> look_at(NodeId item, NodeId list, std::vector<Level>& levels) {
    if (graph_[item].kind == NodeKind::kTensor || mapping_items(graph_, item)) {
      states_[list] = State::kOpen;
    } else if (list_items(graph_, item)) {
      if (states_[item] == State::kInProgress) return unsupported("a list contains itself");
      if (states_[item] == State::kOpen) states_[list] = State::kOpen;
      if (states_[item] == State::kUnknown) {
        states_[item] = State::kInProgress;
        levels.push_back({item});
      }
    }
    return {};
  }

  const StateGraph& graph_;
  std::vector<State> states_;
};

std::string float_text(double value) {
  std::string text = fmt::to_string(value);
  // Python writes 1.0 where fmt writes 1.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Python's str() of a dict key; `inside` a tuple its repr().
std::optional<std::string> python_text(const StateGraph& graph, NodeId id, int depth) {
  const Node& key = graph[id];
  switch (key.kind) {
    case NodeKind::kString:
      if (depth == 0) return key.text;
      for (const char letter : key.text)
        if (letter < ' ' || letter > '~' || letter == '\'' || letter == '\\') return std::nullopt;
      return fmt::format("'{}'", key.text);
    case NodeKind::kInt:
      return fmt::to_string(key.integer);
    case NodeKind::kFloat:
      return float_text(key.real);
    case NodeKind::kBool:
      return key.boolean ? "True" : "False";
    case NodeKind::kNone:
      return "None";
    case NodeKind::kGlobal: {  // a torch dtype; classes print otherwise
      if (!key.text.starts_with("torch\n")) return std::nullopt;
      return "torch." + key.text.substr(6);
    }
    case NodeKind::kTuple: {
      if (depth == 3 || key.children.size() > 16) return std::nullopt;
      std::string text = "(";
      for (std::size_t item = 0; item < key.children.size(); ++item) {
        const auto part = python_text(graph, key.children[item], depth + 1);
        if (!part) return std::nullopt;
        text.append(item == 0 ? "" : ", ").append(*part);
      }
      return text + (key.children.size() == 1 ? ",)" : ")");
    }
    default:
      return std::nullopt;
  }
}

Result<std::string> key_text(const StateGraph& graph, NodeId key) {
  auto text = python_text(graph, key, 0);
  if (!text) return unsupported("a dict key is no text, number or tuple of such");
  return std::move(*text);
}

// Depth-first walk over what `children_of` opens, with the name of the current place.
class Walk {
 public:
  explicit Walk(const StateGraph& graph)
      : graph_(graph), on_path_(graph.size(), false), visits_left_(1024 + 16 * graph.size()) {}

  struct Level {
    NodeId node;
    std::span<const NodeId> items;
    bool keyed = false;
    std::size_t next = 0;
    std::size_t name_size = 0;
  };

  std::vector<Level> levels;
  std::vector<PathStep> path;
  std::string name;

  Result<void> enter(NodeId node, std::span<const NodeId> items, bool keyed) {
    if (on_path_[node]) return unsupported(fmt::format("'{}' contains itself", name));
    if (levels.size() >= kMaxDepth) return unsupported(fmt::format("'{:.100}…' is nested too deeply", name));
    on_path_[node] = true;
    levels.push_back({node, items, keyed, 0, name.size()});
    return {};
  }

  void leave() {
    on_path_[levels.back().node] = false;
    levels.pop_back();
    if (!path.empty()) path.pop_back();
  }

  // Moves to the next item of the innermost container and returns it; kNoNode at its end.
  Result<NodeId> advance() {
    Level& level = levels.back();
    name.resize(level.name_size);
    if (path.size() == levels.size()) path.pop_back();
    if (level.next == level.items.size()) return kNoNode;
    if (visits_left_-- == 0)
      return unsupported(fmt::format("shared containers expand to too many names at '{:.100}'", name));
    PathStep step;
    if (level.keyed) {
      TENPLEX_ASSIGN_OR_RETURN(step.key,
                               key_text(graph_, level.items[level.next]).with_context(fmt::format("in '{}'", name)));
    } else {
      step.is_index = true;
      step.index = static_cast<std::int64_t>(level.next);
    }
    if (levels.size() > 1) name += '.';
    name += step.is_index ? fmt::to_string(step.index) : step.key;
    path.push_back(std::move(step));
    const NodeId item = level.items[level.next + (level.keyed ? 1 : 0)];
    level.next += level.keyed ? 2 : 1;
    return item;
  }

  // The current place as Python's subscripts: ['a'][0].
  std::string subscripts() const {
    std::string text;
    for (const Level& level : levels) {
      if (!level.keyed) {
        text += fmt::format("[{}]", level.next - 1);
        continue;
      }
      const NodeId key = level.items[level.next - 2];
      if (graph_[key].kind == NodeKind::kString) {
        text += fmt::format("['{:.100}']", graph_[key].text);
      } else {
        text += fmt::format("[{}]", python_text(graph_, key, 0).value_or("?"));
      }
    }
    return text;
  }

  Result<void> charge_name() {
    name_bytes_ += name.size();
    if (name_bytes_ > (std::size_t{1} << 20) + 4096 * graph_.size())
      return unsupported(fmt::format("names are too long in sum at '{:.100}…'", name));
    return {};
  }

 private:
  const StateGraph& graph_;
  std::vector<bool> on_path_;
  std::size_t visits_left_;
  std::size_t name_bytes_ = 0;
};

// Names of leaves, one text after another: a checkpoint may have millions.
class NameSet {
 public:
  /// False if it was there already.
  bool insert(std::string_view name) {
    const std::uint32_t hash = table_.hash(name);
    const auto is_name = [&](std::uint32_t number) { return (*this)[number] == name; };
    if (table_.find(hash, is_name) != TextTable::kNone) return false;
    table_.add(hash, static_cast<std::uint32_t>(ends_.size()));
    texts_ += name;
    ends_.push_back(texts_.size());
    return true;
  }

 private:
  std::string_view operator[](std::uint32_t number) const {
    const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(texts_).substr(begin, ends_[number] - begin);
  }

  TextTable table_;
  std::string texts_;
  std::vector<std::size_t> ends_;  // in texts_
};

class Flattener {
 public:
  enum class Keep : std::uint8_t { kAll, kObjects };

  explicit Flattener(const StateGraph& graph, Keep keep = Keep::kAll)
      : graph_(graph), keep_(keep), walk_(graph), open_lists_(graph) {}

  /// Subscripts of the first leaf of that name. Requires: run() was not called and would find one.
  std::string first_place(const std::string& name) {
    looked_for_ = &name;
    static_cast<void>(run());
    return std::move(found_);
  }

  Result<std::vector<StateLeaf>> run() {
    if (graph_.root == kNoNode) return std::move(leaves_);
    TENPLEX_ASSIGN_OR_RETURN(const bool entered, enter(graph_.root));
    if (!entered) {
      const bool tensor = graph_[graph_.root].kind == NodeKind::kTensor;
      if (is_kept(graph_.root)) leaves_.push_back({tensor ? "tensor" : "value", {}, graph_.root});
    }
    while (!walk_.levels.empty()) {
      TENPLEX_ASSIGN_OR_RETURN(const NodeId item, walk_.advance());
      if (item == kNoNode) {
        walk_.leave();
        continue;
      }
      TENPLEX_ASSIGN_OR_RETURN(const bool opened, enter(item));
      if (!opened) TENPLEX_TRY(add_leaf(item));
    }
    return std::move(leaves_);
  }

 private:
  Result<bool> enter(NodeId node) {
    if (const auto items = mapping_items(graph_, node)) {
      TENPLEX_TRY(walk_.enter(node, *items, true));
      return true;
    }
    const auto items = list_items(graph_, node);
    if (!items) return false;
    TENPLEX_ASSIGN_OR_RETURN(const bool open, open_lists_.is_open(node));
    if (open) TENPLEX_TRY(walk_.enter(node, *items, false));
    return open;
  }

  bool is_kept(NodeId node) const { return keep_ == Keep::kAll || graph_[node].kind != NodeKind::kTensor; }

  Result<void> add_leaf(NodeId node) {
    TENPLEX_TRY(walk_.charge_name());
    if (looked_for_ != nullptr && found_.empty() && walk_.name == *looked_for_) found_ = walk_.subscripts();
    if (!names_.insert(walk_.name))
      return unsupported(looked_for_ != nullptr
                             ? std::string()
                             : fmt::format("two entries have the flattened name '{:.100}': {} and {}", walk_.name,
                                           Flattener(graph_).first_place(walk_.name), walk_.subscripts()));
    if (is_kept(node)) leaves_.push_back({walk_.name, walk_.path, node});
    return {};
  }

  const StateGraph& graph_;
  Keep keep_;
  Walk walk_;
  OpenLists open_lists_;
  std::vector<StateLeaf> leaves_;
  NameSet names_;
  const std::string* looked_for_ = nullptr;
  std::string found_;
};

// Walks below one leaf (or from the root) for tensors that flatten() does not reach. Each node is entered once.
class TensorNamer {
 public:
  explicit TensorNamer(const StateGraph& graph) : graph_(graph), seen_(graph.size(), false) {}

  Result<std::vector<std::pair<NodeId, std::string>>> run() {
    TENPLEX_ASSIGN_OR_RETURN(std::vector<StateLeaf> leaves, flatten(graph_));
    for (const StateLeaf& leaf : leaves) {
      if (!has_data(leaf.node) || seen_[leaf.node]) continue;
      seen_[leaf.node] = true;
      names_.insert(leaf.name);
      result_.emplace_back(leaf.node, leaf.name);
    }
    for (const StateLeaf& leaf : leaves) TENPLEX_TRY(name_below(leaf));
    return std::move(result_);
  }

 private:
  struct Level {
    NodeId node;
    std::vector<std::pair<NodeId, std::string>> edges;  // target, step
    std::size_t next = 0;
    std::size_t name_size = 0;
  };

  bool has_data(NodeId node) const {
    return graph_[node].kind == NodeKind::kTensor || graph_[node].kind == NodeKind::kStorage;
  }

  Result<void> name_below(const StateLeaf& leaf) {
    if (seen_[leaf.node]) return {};
    name_ = leaf.name;
    std::vector<Level> levels;
    open(leaf.node, levels);
    while (!levels.empty()) {
      Level& level = levels.back();
      name_.resize(level.name_size);
      if (level.next == level.edges.size()) {
        levels.pop_back();
        continue;
      }
      const auto& [target, step] = level.edges[level.next++];
      if (target == kNoNode || seen_[target]) continue;
      if (levels.size() >= kMaxDepth) return unsupported(fmt::format("'{:.100}…' is nested too deeply", name_));
      name_.append(".").append(step);
      open(target, levels);
    }
    return {};
  }

  void open(NodeId node, std::vector<Level>& levels) {
    seen_[node] = true;
    if (has_data(node)) {
      result_.emplace_back(node, unique_name());
    } else {
      levels.push_back({node, edges(node), 0, name_.size()});
    }
  }

  std::string unique_name() {
    if (names_.insert(name_).second) return name_;
    for (int number = 2;; ++number) {
      std::string name = fmt::format("{}#{}", name_, number);
      if (names_.insert(name).second) return name;
    }
  }

  std::vector<std::pair<NodeId, std::string>> edges(NodeId node) const {
    std::vector<std::pair<NodeId, std::string>> edges;
    const auto add_keyed = [&](std::span<const NodeId> items) {
      for (std::size_t item = 0; item + 1 < items.size(); item += 2) {
        auto key = key_text(graph_, items[item]);
        edges.emplace_back(items[item], fmt::format("key{}", item / 2));
        edges.emplace_back(items[item + 1], key ? std::move(key).value() : fmt::format("value{}", item / 2));
      }
    };
    const auto add_indexed = [&](std::span<const NodeId> items) {
      for (std::size_t item = 0; item < items.size(); ++item) edges.emplace_back(items[item], fmt::to_string(item));
    };
    if (graph_[node].kind == NodeKind::kDict) {
      add_keyed(graph_[node].children);
      return edges;
    }
    add_indexed(graph_[node].children);
    if (graph_[node].kind != NodeKind::kObject) return edges;
    const ObjectParts& parts = graph_.object(node);
    edges.emplace_back(parts.callable, "callable");
    edges.emplace_back(parts.arguments, "args");
    edges.emplace_back(parts.keyword_arguments, "kwargs");
    edges.emplace_back(parts.state, "state");
    add_indexed(parts.list_items);
    add_keyed(parts.dict_items);
    return edges;
  }

  const StateGraph& graph_;
  std::vector<bool> seen_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<NodeId, std::string>> result_;
  std::string name_;
};

}  // namespace

Result<std::vector<StateLeaf>> flatten(const StateGraph& graph) { return Flattener(graph).run(); }

Result<std::vector<StateLeaf>> flatten_objects(const StateGraph& graph) {
  return Flattener(graph, Flattener::Keep::kObjects).run();
}

Result<std::vector<std::pair<NodeId, std::string>>> tensor_names(const StateGraph& graph) {
  if (graph.root == kNoNode) return std::vector<std::pair<NodeId, std::string>>{};
  return TensorNamer(graph).run();
}

}  // namespace tenplex
