// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How many steps an optimizer has made, as other libraries say it in the state beside the tensors:
//
//   common.optimizer.optimizer.param_groups[0].step     an integer, Megatron-Core's distributed optimizer
//   common.optimizer.optimizer.state.common_step        a tensor of no dimension, its other optimizers
//
// Pure function. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

struct SourceSteps {
  std::optional<std::int64_t> number;
  /// Instead of `number`, all that there are. Their values are not known here, and must be the same.
  std::vector<NodeId> tensors;

  bool known() const { return number.has_value() || !tensors.empty(); }
};

/// In all dicts and lists that `optimizer` leads to; it may be kNoNode. Errors: unsupported for numbers that differ.
Result<SourceSteps> find_steps(const StateGraph& graph, NodeId optimizer);

}  // namespace tenplex::deepspeed
