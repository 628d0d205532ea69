// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank's file holds: its part of the model under the numbers that it gives layers and experts, its optimizer,
// its random state, and what all ranks have.
//
//   {"args": …, "checkpoint_version": 3.0, "iteration": 70, "optimizer": …, "model": {…}, "rng_state": […]}
//
// Value type; borrows nothing. Threads: functions without shared state.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/megatron_legacy/target_grid.h"
#include "tenplex/formats/megatron_legacy/target_stages.h"
#include "tenplex/formats/megatron_legacy/target_state.h"

namespace tenplex::megatron_legacy {

/// Everything that the trees of all ranks are made of.
struct TargetModel {
  const CheckpointInfo* source = nullptr;
  const Collection* target = nullptr;
  TargetState state;
  TargetGrid grid;
  TargetStages stages;
};

struct RankTree {
  StateGraph graph;
  std::vector<TensorInfo> tensors;                        ///< of the graph, with the rank's shapes
  std::vector<std::pair<TensorId, std::int64_t>> shards;  ///< of each: tensor and shard of the target
};

/// Errors: unsupported and corrupt, naming the parameter.
Result<RankTree> make_rank_tree(const TargetModel& model, std::size_t rank);

/// Of the first rank's file: a dict of random states of ranks that the target has not, under their names in the state.
inline constexpr std::string_view kOtherRandomStates = "rng_state_of_other_ranks";

/// "rng_state/shard_1.0_2.2": the key of a rank's random state, as it is read.
std::string random_state_key(const RankFolders& folders, const RankFolder& rank);

}  // namespace tenplex::megatron_legacy
