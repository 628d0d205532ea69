// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares what two checkpoints hold beside tensors: step counters, schedulers, random state.
#pragma once

#include <string>
#include <vector>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// Appends a line for every leaf that is only in one of them or has another value. False if one of them has no tree at
/// all, so that nothing was compared.
bool compare_objects(const StateGraph& first, const StateGraph& second, std::vector<std::string>* differences);

}  // namespace tenplex
