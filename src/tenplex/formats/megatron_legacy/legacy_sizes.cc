// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/legacy_sizes.h"

#include <array>
#include <string_view>

#include "tenplex/formats/state/state_numbers.h"

namespace tenplex::megatron_legacy {

MeshSizes mesh_of_stage(const RankFolders& folders) {
  return {{"tp", folders.tensor_size}, {"dp", folders.expert_size}, {"ep", folders.expert_size}};
}

NamedSizes layout_sizes(const CheckpointInfo& info) {
  constexpr std::string_view kInterleave = "moe_mlp_glu_interleave_size";
  constexpr std::array<std::string_view, 2> kOfRank = {"args", kInterleave};
  constexpr std::array<std::string_view, 3> kOfModel = {"common", "args", kInterleave};
  const auto of_rank = number_at(info.state, kOfRank);
  const auto interleave = of_rank ? of_rank : number_at(info.state, kOfModel);
  return {{"vocab", 0}, {"divisor", 1}, {"virtual", 1},
          {"first", 0}, {"last", 0},    {"glu_interleave", interleave.value_or(0)}};
}

}  // namespace tenplex::megatron_legacy
