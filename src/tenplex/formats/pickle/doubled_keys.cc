// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/doubled_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace tenplex {
namespace {

constexpr int kMaxDepth = 16;

template <typename Value>
std::string value_text(char kind, Value value) {
  std::string text(1, kind);
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
  return text;
}

/// The integer that a float is equal to, if any of 64 bits is.
std::optional<std::int64_t> integer_of(double real) {
  constexpr double kEnd = 0x1p63;
  if (!(real >= -kEnd && real < kEnd) || std::trunc(real) != real) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

/// What the message says of a key; empty for one that is neither text nor a number.
std::string shown(const PickleDocument& document, NodeId key) {
  if (const auto text = document.text(key)) return fmt::format(" '{}'", *text);
  if (const auto number = document.integer(key)) return fmt::format(" {}", *number);
  return {};
}

/// The class of an object whose state is that dict.
std::string owner_of(const PickleDocument& document, NodeId dict) {
  const StateGraph& graph = document.graph();
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph[id].kind != NodeKind::kObject || graph.object(id).state != dict) continue;
    std::string name(document.global(graph.object(id).callable).value_or(""));
    return name.substr(name.find('\n') + 1);
  }
  return {};
}

}  // namespace

NodeId DoubledKeys::first_with(const std::string& value, NodeId key) {
  return by_value_.try_emplace(value, key).first->second;
}

// A number that two keys share exactly if Python takes them for one.
NodeId DoubledKeys::same_key(const PickleDocument& document, NodeId key, int depth) {
  const std::optional<NodeKind> kind = document.kind(key);
  if (!kind || key < first_ || (is_atom(key) && *kind != NodeKind::kInt && *kind != NodeKind::kBool)) return key;
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  NodeId same = key;
  switch (*kind) {
    case NodeKind::kBool:
      same = first_with(value_text('i', std::int64_t{*document.boolean(key)}), key);
      break;
    case NodeKind::kInt:
      same = first_with(value_text('i', *document.integer(key)), key);
      break;
    case NodeKind::kBigInt:
      same = first_with(fmt::format("l{}", document.graph()[key].text), key);
      break;
    case NodeKind::kFloat: {
      const double real = document.graph()[key].real;
      if (const auto integer = integer_of(real)) {
        same = first_with(value_text('i', *integer), key);
      } else if (!std::isnan(real)) {
        same = first_with(value_text('f', std::bit_cast<std::uint64_t>(real)), key);
      }
      break;
    }
    case NodeKind::kString:
      same = first_with(fmt::format("s{}", *document.text(key)), key);
      break;
    case NodeKind::kBytes:
      same = first_with(fmt::format("b{}", *document.bytes(key)), key);
      break;
    case NodeKind::kTuple: {
      if (depth == kMaxDepth) return key;
      std::string value(1, 't');
      for (const NodeId item : document.children(key)) value += value_text('.', same_key(document, item, depth + 1));
      same = first_with(value, key);
      break;
    }
    default:
      return key;
  }
  known_.emplace(key, same);
  return same;
}

Result<void> DoubledKeys::check_keys(const PickleDocument& document, NodeId node, std::span<const NodeId> items,
                                     std::size_t step) {
  if (items.size() <= step) return {};
  keys_.clear();
  for (std::size_t item = 0; item < items.size(); item += step) keys_.push_back(same_key(document, items[item], 0));
  if (!std::is_sorted(keys_.begin(), keys_.end())) std::sort(keys_.begin(), keys_.end());
  const auto doubled = std::adjacent_find(keys_.begin(), keys_.end());
  if (doubled == keys_.end()) return {};
  const std::string key = shown(document, *doubled);
  if (step == 1) return corrupt(fmt::format("a set has one item twice{}{}", key.empty() ? "" : ":", key));
  if (const std::string owner = owner_of(document, node); !owner.empty())
    return corrupt(fmt::format("{}: the field{} is there twice", owner, key));
  return corrupt(fmt::format("a dict has one key twice{}{}", key.empty() ? "" : ":", key));
}

Result<void> DoubledKeys::check(const PickleDocument& document, NodeId first) {
  const StateGraph& graph = document.graph();
  first_ = first;
  if (!known_.empty()) known_ = {};
  if (!by_value_.empty()) by_value_ = {};
  for (NodeId id = first; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.kind == NodeKind::kDict) TENPLEX_TRY(check_keys(document, id, node.children, 2));
    if (node.kind == NodeKind::kSet || node.kind == NodeKind::kFrozenSet)
      TENPLEX_TRY(check_keys(document, id, node.children, 1));
    if (node.kind == NodeKind::kObject) TENPLEX_TRY(check_keys(document, id, graph.object(id).dict_items, 2));
  }
  return {};
}

}  // namespace tenplex
