// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of a rank, put together from slots that have names: the reverse of optimizer_slots.h.
//
//   optimizer.param_groups [{wd_mult 1, …}, {wd_mult 0, …}]    common to all ranks, without `params`
//   weight, bias with exp_avg, exp_avg_sq, fp32_param
//           ─► params [0], [1]; state {0: {step, exp_avg, exp_avg_sq}, 1: …}; fp32_from_fp16_params [[…], […]]
//
// Experts have groups of their own, in an optimizer of their own, if there are several expert parallel ranks, and are
// in the others' groups if not. Pure. Threads: safe together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/dims.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex::megatron_legacy {

/// In the order of the rank's model.
struct RankParameter {
  std::string name;  ///< in the whole model
  DType dtype = DType::kFloat32;
  Dims shape;  ///< the rank's part
  bool is_expert = false;
  std::vector<std::pair<std::string, NodeId>> slots;  ///< tensors in the rank's tree; none: it is not trained
};

struct RankOptimizerOptions {
  bool experts_apart = false;
  /// A leaf with the same elements as the given one in a storage of its own: torch counts steps in place.
  std::function<NodeId(NodeId)> own_copy;
};

/// Changes the item "optimizer" of `root`. Errors: unsupported naming the parameter without a group, or the group that
/// does not say what it has.
Result<void> fill_optimizer(StateGraph* tree, NodeId root, std::span<const RankParameter> parameters,
                            const RankOptimizerOptions& options);

}  // namespace tenplex::megatron_legacy
