// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// flatten(): the ways from the root to the leaves. Containers may be shared, so the number of ways can grow beyond the
// number of nodes; a budget refuses graphs made to explode.
// Source: torch/distributed/checkpoint/_traverse.py (traverse_state_dict).
#include "tenplex/formats/state/flatten.h"

#include <fmt/format.h>

#include "tenplex/base/text_table.h"
#include "tenplex/formats/state/key_text.h"

namespace tenplex {
namespace {

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

// Depth-first walk over what `children_of` opens, with the name of the current place.
class Walk {
 public:
  explicit Walk(const StateGraph& graph)
      : graph_(graph), on_path_(graph.size(), false), visits_left_(1024 + 16 * graph.size()) {}

  struct Level {
    NodeId node;
    std::span<const NodeId> items;
    bool keyed = false;
    std::uint32_t number = 0;  // of the container, in the order of entering
    std::size_t next = 0;
    std::size_t name_size = 0;

    // What advance() stepped on: a key's node, or an index.
    std::uint32_t step() const { return keyed ? items[next - 2] : static_cast<std::uint32_t>(next - 1); }
  };

  std::vector<Level> levels;
  std::string name;

  Result<void> enter(NodeId node, std::span<const NodeId> items, bool keyed) {
    if (on_path_[node]) return unsupported(fmt::format("'{}' contains itself", name));
    if (levels.size() >= kMaxStateDepth) return unsupported(fmt::format("'{:.100}…' is nested too deeply", name));
    on_path_[node] = true;
    levels.push_back({node, items, keyed, entered_++, 0, name.size()});
    return {};
  }

  void leave() {
    on_path_[levels.back().node] = false;
    levels.pop_back();
  }

  // Moves to the next item of the innermost container and returns it; kNoNode at its end.
  Result<NodeId> advance() {
    Level& level = levels.back();
    name.resize(level.name_size);
    if (level.next == level.items.size()) return kNoNode;
    if (visits_left_-- == 0)
      return unsupported(fmt::format("shared containers expand to too many names at '{:.100}'", name));
    std::string step;
    if (level.keyed) {
      const std::string place = levels.size() > 1 ? fmt::format("'{}'", name) : "the outermost dict";
      TENPLEX_ASSIGN_OR_RETURN(step,
                               key_text(graph_, level.items[level.next]).with_context(fmt::format("in {}", place)));
    } else {
      step = fmt::to_string(level.next);
    }
    if (levels.size() > 1) name += '.';
    name += step;
    const NodeId item = level.items[level.next + (level.keyed ? 1 : 0)];
    level.next += level.keyed ? 2 : 1;
    return item;
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
  std::uint32_t entered_ = 0;
};

}  // namespace

class Flattener {
 public:
  explicit Flattener(const StateGraph& graph) : graph_(graph), walk_(graph), open_lists_(graph), leaves_(graph) {}

  Result<LeafList> run() {
    if (graph_.root == kNoNode) return std::move(leaves_);
    TENPLEX_ASSIGN_OR_RETURN(const bool entered, enter(graph_.root));
    if (!entered) leaves_.leaves_.push_back({graph_.root, here()});
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
  LeafList::Step here() const {
    if (walk_.levels.empty()) return {LeafList::kNoContainer, 0};
    return {walk_.levels.back().number, walk_.levels.back().step()};
  }

  Result<bool> enter(NodeId node) {
    std::optional<std::span<const NodeId>> items = mapping_items(graph_, node);
    const bool keyed = items.has_value();
    if (!keyed) {
      items = list_items(graph_, node);
      if (!items) return false;
      TENPLEX_ASSIGN_OR_RETURN(const bool open, open_lists_.is_open(node));
      if (!open) return false;
    }
    const LeafList::Step place = here();
    TENPLEX_TRY(walk_.enter(node, *items, keyed));
    leaves_.containers_.push_back({place, keyed});
    return true;
  }

  Result<void> add_leaf(NodeId node) {
    TENPLEX_TRY(walk_.charge_name());
    const auto number = static_cast<std::uint32_t>(leaves_.size());
    const std::uint32_t hash = names_.hash(walk_.name);
    const std::uint32_t same =
        names_.find(hash, [&](std::uint32_t other) { return leaves_.name(other) == walk_.name; });
    names_.add(hash, number);
    leaves_.leaves_.push_back({node, here()});
    if (same == TextTable::kNone) return {};
    return unsupported(fmt::format("two entries have the flattened name '{:.100}': {} and {}", walk_.name,
                                   leaves_.subscripts(same), leaves_.subscripts(number)));
  }

  const StateGraph& graph_;
  Walk walk_;
  OpenLists open_lists_;
  LeafList leaves_;
  TextTable names_;  // of leaves
};

Result<LeafList> flatten(const StateGraph& graph) { return Flattener(graph).run(); }

}  // namespace tenplex
