// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/describe_object.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/printable.h"

namespace tenplex::cli {
namespace {

constexpr std::size_t kLongestText = 48;

/// At most kLongestText bytes of `text`, which end between two characters.
std::string_view shortened(std::string_view text) {
  if (text.size() <= kLongestText) return text;
  std::size_t end = kLongestText;
  while (end > kLongestText - 4 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  return text.substr(0, end);
}

/// Text in printable_name() with quotes escaped too, cut to kLongestText.
std::string quoted_start(std::string_view text) {
  std::string shown = "'";
  for (const char character : printable_name(shortened(text))) {
    if (character == '\'') shown += '\\';
    shown += character;
  }
  return shown + (text.size() > kLongestText ? "…'" : "'");
}

std::string class_name(const StateGraph& graph, NodeId callable) {
  if (callable == kNoNode || graph[callable].kind != NodeKind::kGlobal) return "unknown";
  std::string name = graph[callable].text;
  std::replace(name.begin(), name.end(), '\n', '.');
  return printable_name(name);
}

}  // namespace

std::string describe_object(const StateGraph& graph, NodeId node) {
  const Node& shown = graph[node];
  switch (shown.kind) {
    case NodeKind::kNone:
      return "None";
    case NodeKind::kBool:
      return shown.boolean ? "True" : "False";
    case NodeKind::kInt:
      return fmt::format("{}", shown.integer);
    case NodeKind::kBigInt:
      return fmt::format("int of {} bytes", shown.text.size());
    case NodeKind::kFloat:
      return fmt::format("{}", shown.real);
    case NodeKind::kString:
      return quoted_start(shown.text);
    case NodeKind::kBytes:
    case NodeKind::kByteArray:
      return fmt::format("{} bytes", shown.text.size());
    case NodeKind::kList:
      return fmt::format("list of {}", shown.children.size());
    case NodeKind::kTuple:
      return fmt::format("tuple of {}", shown.children.size());
    case NodeKind::kSet:
    case NodeKind::kFrozenSet:
      return fmt::format("set of {}", shown.children.size());
    case NodeKind::kDict:
      return fmt::format("dict of {}", shown.children.size() / 2);
    case NodeKind::kTensor:
      return "tensor";
    case NodeKind::kStorage:
      return "storage";
    case NodeKind::kGlobal:
      return class_name(graph, node);
    case NodeKind::kObject:
      return class_name(graph, graph.object(node).callable) + " object";
  }
  return "unknown";
}

}  // namespace tenplex::cli
