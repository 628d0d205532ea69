// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which layers each rank's file has, and under what numbers. The layout says what stage a layer is on; a stage with
// layers apart has virtual stages:
//
//   layers 0 1 2 3 on stages 0 0 1 1     stage 1: model   {0: layer 2, 1: layer 3}
//   layers 0 1 2 3 on stages 0 1 0 1     stage 1: model0  {0: layer 1}    model1 {0: layer 3}
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tenplex/formats/megatron_legacy/target_grid.h"
#include "tenplex/formats/megatron_legacy/target_state.h"

namespace tenplex::megatron_legacy {

struct LayerPlace {
  std::int64_t stage = 0;
  std::int64_t chunk = 0;
  std::int64_t number = 0;  ///< in the chunk
};

struct TargetStages {
  std::map<std::string, std::vector<LayerPlace>, std::less<>> layers;  ///< by stack
  std::int64_t chunks = 1;                                             ///< of each stage
  std::int64_t experts_each = 0;                                       ///< that a rank has of a layer
  std::int64_t experts = 0;
};

/// Errors: corrupt for a layer or expert that is missing; unsupported for layers and experts dealt out in another way.
Result<TargetStages> number_stages(const TargetState& state, const TargetGrid& grid, const Collection& target);

}  // namespace tenplex::megatron_legacy
