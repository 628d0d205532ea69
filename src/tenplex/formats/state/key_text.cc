// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/key_text.h"

#include <fmt/format.h>

namespace tenplex {
namespace {

std::string float_text(double value) {
  std::string text = fmt::to_string(value);
  // Python writes 1.0 where fmt writes 1.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

// Python's str() of a dict key; `inside` a tuple its repr().
std::optional<std::string> text_at_depth(const StateGraph& graph, NodeId id, int depth) {
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
        const auto part = text_at_depth(graph, key.children[item], depth + 1);
        if (!part) return std::nullopt;
        text.append(item == 0 ? "" : ", ").append(*part);
      }
      return text + (key.children.size() == 1 ? ",)" : ")");
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> python_text(const StateGraph& graph, NodeId key) { return text_at_depth(graph, key, 0); }

Result<std::string> key_text(const StateGraph& graph, NodeId key) {
  auto text = python_text(graph, key);
  if (!text) return unsupported("a dict key is no text, number or tuple of such");
  return std::move(*text);
}

}  // namespace tenplex
