// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/compare_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tenplex/formats/state/flatten.h"

namespace tenplex {
namespace {

using Leaves = std::map<std::string, NodeId>;

Result<Leaves> object_leaves(const StateGraph& graph) {
  TENPLEX_ASSIGN_OR_RETURN(const LeafList all, flatten(graph));
  const LeafList objects = all.objects();
  Leaves leaves;
  for (std::size_t i = 0; i < objects.size(); ++i) leaves.emplace(objects.name(i), objects.node(i));
  return leaves;
}

}  // namespace

bool starts_with_any(std::string_view name, std::span<const std::string> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [name](const std::string& beginning) { return name.starts_with(beginning); });
}

bool compare_objects(const StateGraph& first, const StateGraph& second, std::span<const std::string> not_compared,
                     std::vector<std::string>* differences) {
  if (first.root == kNoNode || second.root == kNoNode) return false;
  const auto a = object_leaves(first);
  const auto b = object_leaves(second);
  if (!a || !b) {  // a tree without leaf names, such as one with a cycle: it can only be compared as a whole
    if (!equal(first, first.root, second, second.root)) differences->push_back("the objects differ");
    return true;
  }
  for (const auto& [name, node] : *a) {
    if (starts_with_any(name, not_compared)) continue;
    const auto other = b->find(name);
    if (other == b->end()) {
      differences->push_back(fmt::format("object '{}' is only in the first", name));
    } else if (!equal(first, node, second, other->second)) {
      differences->push_back(fmt::format("object '{}' differs", name));
    }
  }
  for (const auto& [name, node] : *b)
    if (!a->contains(name) && !starts_with_any(name, not_compared))
      differences->push_back(fmt::format("object '{}' is only in the second", name));
  return true;
}

}  // namespace tenplex
