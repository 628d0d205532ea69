// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Leaves that were one Python object are one view of one shape. Where a layout clips one of their names, or where a
// file says so of different views, they are several objects from then on:
//
//   object 1: embed [5, 2], head [8, 2], tail [8, 2]     ──►     embed: none     head, tail: object 1
//
// What they share of a storage stays. Threads: as any value.
#pragma once

#include <span>

#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// Lets leaves keep a common object number only where they are the same view of the same element type, shape and
/// wrapping. Leaves that are alike get a number of their own, a leaf that is like no other none. Bare storages and
/// nodes of a tensor that is not among `tensors` have none.
void split_unlike_objects(std::span<const TensorInfo> tensors, StateGraph* graph);

}  // namespace tenplex
