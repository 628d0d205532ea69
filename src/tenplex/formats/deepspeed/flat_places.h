// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the elements of every parameter and of its slots lie in the flat groups of all ranks.
//
//   ZeRO-1/2   rank 0 [ w w w u u ]   rank 1 [ u u b b · ]      u: 2 elements of rank 0, then 2 of rank 1; · padding
//   ZeRO-3     rank 0 [ w w u u b ]   rank 1 [ w · u u b ]      every parameter: half of it on each rank
//
// Every element of every parameter is in exactly one place, and what is left of the groups is padding that the files
// account for. Threads: as CheckpointJoiner.
#pragma once

#include <span>
#include <vector>

#include "tenplex/formats/deepspeed/optimizer_file.h"
#include "tenplex/formats/deepspeed/parameter_groups.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

struct RankOptimizer {
  CheckpointJoiner::Part part = 0;
  DeviceId device;
  OptimizerFile file;
};

/// How ranks with other experts follow each other: the experts change from rank to rank, or those with the same ones
/// come first (`use_data_before_expert_parallelism`).
enum class ExpertOrder : std::uint8_t { kExpertFirst, kDataFirst };

/// What a stage's ranks are held against.
struct StageSubject {
  const ParameterGroups& groups;  ///< of the stage
  const RankOptimizer& first;     ///< the first rank of all
  ExpertOrder order = ExpertOrder::kExpertFirst;
};

/// Adds the slots of a stage's parameters to those of the whole model: of all tensor parallel ranks, and of each the
/// data parallel ranks. A parameter that an earlier stage has too gets further copies, which are compared when it is
/// read. Errors: corrupt, naming parameter, group and file, where the ranks do not fit each other or the parameters.
Result<void> place_slots(std::span<const std::vector<RankOptimizer>> ranks, const StageSubject& stage,
                         CheckpointJoiner* joiner, ParameterGroups* whole);

}  // namespace tenplex::deepspeed
