// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A state tree without its tensors, as Megatron-Core takes sharded tensors out of a state:
//
//   {"model": {"w": tensor}, "opt": {"w": {"m": tensor, "step": 3}}}   ─►   {"opt": {"w": {"step": 3}}}
//
// Dicts and lists that are empty for want of tensors go; those that were empty stay. Dict and list subclasses become
// plain ones; tuples and objects stay as they are, with the tensors in them.
//
// Pure function. Threads: safe together.
#pragma once

#include "tenplex/formats/state/state_graph.h"

namespace tenplex::megatron {

/// Adds nodes to `*graph` and returns a dict; a root that is no dict is its entry "state". What is nested deeper than
/// kMaxStateDepth or leads to itself stays as it is.
NodeId without_tensors(StateGraph* graph);

}  // namespace tenplex::megatron
