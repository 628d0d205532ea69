// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which parameter each tensor of a rank's optimizer belongs to. The optimizer numbers parameters and does not name
// them:
//
//   optimizer.param_groups  [{wd_mult 1, params [0, 1]}, {wd_mult 0, params [2, 3]}]
//   model, in its order      weight, bias, norm.weight, out.weight
//                     ─►     weight 0, out.weight 1         bias 2, norm.weight 3
//
// A group has the parameters of one kind in the order of the model: with weight decay those of several dimensions,
// without (wd_mult 0) biases and vectors; experts have groups of their own. The kinds are recognised by what the groups
// say of themselves; every count and every shape must then fit, or nothing is mapped.
//
// Source: Megatron-Core 0.16.1, optimizer/optimizer.py (Float16OptimizerWithFloat16Params, FP32Optimizer,
// ChainedOptimizer) and optimizer/__init__.py (_get_param_groups). Pure. Threads: safe together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron_legacy {

/// A parameter of a rank, in the order of its model.
struct OwnParameter {
  std::string name;        ///< in the whole model
  TensorId stored;         ///< in the rank's file
  bool is_expert = false;  ///< of experts that have groups of their own
  std::size_t chunk = 0;   ///< virtual stage
};

struct OwnSlot {
  std::size_t parameter = 0;  ///< in the list given
  std::string slot;           ///< "fp32_param", "exp_avg", …
  TensorId stored;
};

struct OptimizerSlots {
  std::vector<OwnSlot> slots;
  std::vector<TensorId> steps;             ///< 0-d tensors, of which all must be equal: the number of steps
  std::vector<std::int64_t> step_numbers;  ///< the same where they are no tensors
};

/// `optimizer` is the value of that key in the tree of `file`. Errors: unsupported saying what is missing to tell the
/// parameters apart; corrupt for another structure.
Result<OptimizerSlots> find_optimizer_slots(const CheckpointInfo& file, NodeId optimizer,
                                            std::span<const OwnParameter> parameters);

/// Takes what find_optimizer_slots() found, and the numbers of parameters, out of the tree; `*graph` is a copy of the
/// file's, and find_optimizer_slots() gave no error.
void remove_optimizer_slots(StateGraph* graph, NodeId optimizer);

}  // namespace tenplex::megatron_legacy
