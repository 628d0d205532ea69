// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares what two checkpoints hold beside tensors: step counters, schedulers, random state.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// Appends a line for every leaf that is only in one of them or has another value. False if one of them has no tree at
/// all, so that nothing was compared. Leaves whose names start as one of `not_compared` are passed over.
bool compare_objects(const StateGraph& first, const StateGraph& second, std::span<const std::string> not_compared,
                     std::vector<std::string>* differences);

bool starts_with_any(std::string_view name, std::span<const std::string> beginnings);

}  // namespace tenplex
