// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Containers, objects and tensors that several entries of a DCP folder hold. DCP stores each entry on its own, so what
// two of them hold is stored twice; tenplex.json says which places are one node:
//
//   {"a": (t, 1), "b": (2, t)}    place [3, 1]: the tuple of b, its item 1    first [1, 0]: that of a, its item 0
//
// A place is the way from the root: at each node the number of the edge to take, as StateGraph::for_each_edge() counts
// them from 0. Pure functions. Threads: safe together.
#pragma once

#include <span>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/dcp/state_builder.h"
#include "tenplex/formats/state/leaf_list.h"

namespace tenplex::dcp {

/// The places inside objects of `leaves` whose node an opened container or another object holds too, without what lies
/// below them. `leaves` is flatten(graph).
std::vector<SharedNode> find_shared_nodes(const StateGraph& graph, const LeafList& leaves);

/// Makes each of these places lead to the node of its first place, and drops the tensors inside objects that nothing
/// leads to any more. `tensors` are those that are not inside objects. Requires: built->graph has a root.
/// Errors: corrupt for places that are not there or whose nodes cannot be one.
Result<void> join_shared_nodes(std::span<const SharedNode> shared, std::span<const TensorInfo> tensors,
                               BuiltState* built);

}  // namespace tenplex::dcp
