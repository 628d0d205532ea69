// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What Megatron's parameter groups say of themselves, and where an optimizer keeps its parts:
//
//   {optimizer: {state: {number: {slot: tensor}}, param_groups: [{wd_mult, is_expert_parallel, params: [number, …]}]},
//    fp32_from_fp16_params: [[tensor, …], …]}          mixed precision; of experts there may be another: a list then
//
// Source: Megatron-Core 0.16.1, optimizer/__init__.py (_get_param_groups). Pure. Threads: safe together.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/dims.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex::megatron_legacy {

inline constexpr std::string_view kMasterSlot = "fp32_param";
inline constexpr std::array<std::string_view, 2> kMasterKeys = {"fp32_from_fp16_params", "fp32_from_fp16"};

/// Of one optimizer: where its parts are in the tree.
struct OptimizerParts {
  NodeId torch = kNoNode;    ///< the dict that has the two below
  NodeId state = kNoNode;    ///< {number: {slot: tensor}}
  NodeId groups = kNoNode;   ///< [{params: [number, …], wd_mult: …}]
  NodeId masters = kNoNode;  ///< [[tensor, …]], a list per group; kNoNode where parameters are float32 themselves
};

OptimizerParts parts_of_optimizer(const StateGraph& graph, NodeId optimizer);

/// The optimizers of a rank: one, or a list of them.
std::vector<NodeId> optimizers_of(const StateGraph& graph, NodeId optimizer);

/// Which parameters are in a group.
struct GroupKind {
  bool decays = true;    ///< those of several dimensions; else biases and vectors
  bool experts = false;  ///< those of experts alone, or all others

  friend bool operator==(const GroupKind&, const GroupKind&) = default;
};

/// Errors: unsupported for a group that does not say it.
Result<GroupKind> kind_of_group(const StateGraph& graph, NodeId group);

/// `apart`: experts have groups of their own, which is so if there are several expert parallel ranks.
GroupKind kind_of_parameter(std::string_view name, const Dims& shape, bool apart);

/// True if a mixed-precision optimizer has a float32 copy of such a parameter.
bool has_master(DType dtype);

}  // namespace tenplex::megatron_legacy
