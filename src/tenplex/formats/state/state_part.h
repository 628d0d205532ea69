// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Taking parts out of a state tree.
//
//   {"a": 1, "b": {"w": tensor, "n": 2}}   keep_tensors ─►   {"b": {"w": tensor}}
//
// Pure functions. Threads: safe together.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// Drops the entries of a dict whose key is text that `keeps` is false for, and those whose key is no text. Nothing
/// happens to other nodes.
void keep_entries(StateGraph* graph, NodeId dict, const std::function<bool(std::string_view key)>& keeps);

/// Leaves the root's tensors, and those of dicts in it at any depth. A root that is no dict has none then.
void keep_tensors(StateGraph* graph);

/// The nodes that the root leads to, numbered anew.
StateGraph reachable_part(const StateGraph& graph);

/// Per tensor whether a node is of it.
std::vector<bool> tensors_in(const StateGraph& graph, std::size_t tensor_count);

/// Gives all views the ids numbers[old id].
void renumber_tensors(StateGraph* graph, std::span<const TensorId> numbers);

}  // namespace tenplex
