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

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

struct SourceSteps {
  std::optional<std::int64_t> number;
  NodeId tensor = kNoNode;  ///< instead of `number`: its value is not known here

  bool known() const { return number.has_value() || tensor != kNoNode; }
};

/// In all dicts and lists that `optimizer` leads to; it may be kNoNode. Errors: unsupported for numbers that differ.
Result<SourceSteps> find_steps(const StateGraph& graph, NodeId optimizer);

}  // namespace tenplex::deepspeed
