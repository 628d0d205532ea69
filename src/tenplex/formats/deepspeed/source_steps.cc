// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/source_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

constexpr double kMaxSteps = 1LL << 53;

std::optional<std::int64_t> whole_number(const StateGraph& graph, NodeId node) {
  if (node == kNoNode) return std::nullopt;
  if (graph[node].kind != NodeKind::kFloat) return integer_of(graph, node);
  const double value = graph[node].real;
  if (!(std::abs(value) < kMaxSteps) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Result<void> note_groups(const StateGraph& graph, NodeId groups, SourceSteps* steps) {
  const auto items = list_items(graph, groups);
  if (!items) return {};
  for (const NodeId group : *items) {
    const auto number = whole_number(graph, find_item(graph, group, "step"));
    if (!number) continue;
    if (*number < 0 || (steps->number && *steps->number != *number))
      return unsupported(fmt::format("the optimizer's groups say that it has made {} and {} steps",
                                     steps->number.value_or(*number), *number));
    steps->number = number;
  }
  return {};
}

}  // namespace

Result<SourceSteps> find_steps(const StateGraph& graph, NodeId optimizer) {
  SourceSteps steps;
  std::vector<bool> seen(graph.size(), false);
  std::vector<NodeId> open{optimizer};
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (node == kNoNode || seen[node]) continue;
    seen[node] = true;
    TENPLEX_TRY(note_groups(graph, find_item(graph, node, "param_groups"), &steps));
    const NodeId tensor = find_item(graph, find_item(graph, node, "state"), "common_step");
    if (is_tensor(graph, tensor)) steps.tensors.push_back(tensor);
    if (const auto items = mapping_items(graph, node)) {
      for (std::size_t at = 1; at < items->size(); at += 2) open.push_back((*items)[at]);
    } else if (const auto list = list_items(graph, node)) {
      open.insert(open.end(), list->begin(), list->end());
    }
  }
  if (steps.number) steps.tensors.clear();
  return steps;
}

}  // namespace tenplex::deepspeed
