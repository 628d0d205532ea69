// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The classes that Megatron-Core lets into common.pt, which it loads with torch's weights_only: torch's own list and
// that of megatron/core/safe_globals.py (0.16.1, 0.19.2). A file with any other class could not be loaded.
//
// Pure function. Threads: safe together.
#pragma once

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::megatron {

/// Of all that `root` leads to. Errors: unsupported naming the class.
Result<void> check_classes(const StateGraph& graph, NodeId root);

}  // namespace tenplex::megatron
