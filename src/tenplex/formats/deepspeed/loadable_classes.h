// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The classes that a program with DeepSpeed can unpickle, whatever it is: of Python's library, torch, numpy, DeepSpeed.
//
// Pure function. Threads: safe together.
#pragma once

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

/// Of all that `root` leads to. Errors: unsupported naming the class.
Result<void> check_classes(const StateGraph& graph, NodeId root);

}  // namespace tenplex::deepspeed
