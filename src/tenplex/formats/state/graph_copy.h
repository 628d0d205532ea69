// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copying a part of one state graph into another. Pure. Threads: safe together.
#pragma once

#include <functional>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// Adds what `node` leads to, each node once, and returns its copy. `view` gives the new view of each tensor and bare
/// storage. Requires: node is one of `from`, which is another graph than `*to`.
NodeId copy_reachable(const StateGraph& from, NodeId node, StateGraph* to,
                      const std::function<TensorView(const TensorView&)>& view);

}  // namespace tenplex
