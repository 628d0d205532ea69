// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/describe_object.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex::cli {
namespace {

constexpr std::size_t kLongestText = 48;

/// Text with control characters and quotes escaped, cut to kLongestText.
std::string quoted(const std::string& text) {
  std::string shown = "'";
  for (const char character : text.substr(0, kLongestText)) {
    if (character == '\'' || character == '\\') {
      shown += '\\';
      shown += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(character));
    } else {
      shown += character;
    }
  }
  return shown + (text.size() > kLongestText ? "…'" : "'");
}

std::string class_name(const StateGraph& graph, NodeId callable) {
  if (callable == kNoNode || graph[callable].kind != NodeKind::kGlobal) return "unknown";
  std::string name = graph[callable].text;
  std::replace(name.begin(), name.end(), '\n', '.');
  return name;
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
      return quoted(shown.text);
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
