// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/target_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace tenplex::megatron_legacy {
namespace {

using StagesOfLayers = std::map<std::string, std::map<std::int64_t, std::int64_t>, std::less<>>;

Result<StagesOfLayers> find_stages(const TargetState& state, const TargetGrid& grid, const Collection& target) {
  StagesOfLayers found;
  std::vector<std::int64_t> shards;
  for (const TargetParameter& parameter : state.model) {
    if (!parameter.name.layer) continue;
    std::int64_t stage = -1;
    for (std::size_t rank = 0; rank < grid.devices.size(); ++rank) {
      target.shards_of_device(parameter.tensor, grid.devices[rank], &shards);
      if (shards.empty()) continue;
      const std::int64_t here = grid.folders.ranks[rank].pipeline;
      auto& layers = found[std::string(parameter.name.stack)];
      stage = layers.try_emplace(*parameter.name.layer, here).first->second;
      if (stage != here)
        return unsupported(fmt::format("the target layout has layer {} of '{}' on stages {} and {}: '{}'",
                                       *parameter.name.layer, parameter.name.stack, stage, here,
                                       target.tensors()[parameter.tensor.index()].name));
    }
  }
  return found;
}

Result<void> number_layers_of(std::string_view stack, const std::map<std::int64_t, std::int64_t>& stage_of,
                              std::int64_t stage_count, TargetStages* stages) {
  std::vector<LayerPlace>& places = stages->layers[std::string(stack)];
  std::vector<std::int64_t> runs(static_cast<std::size_t>(stage_count), 0);
  for (const auto& [layer, stage] : stage_of) {
    if (layer != static_cast<std::int64_t>(places.size()))
      return corrupt(fmt::format("layer {} of '{}' is missing, and layer {} is there", places.size(), stack, layer));
    LayerPlace place{stage, 0, 0};
    if (!places.empty() && places.back().stage == stage) {
      place.chunk = places.back().chunk;
      place.number = places.back().number + 1;
    } else {
      place.chunk = runs[static_cast<std::size_t>(stage)]++;
    }
    places.push_back(place);
  }
  const std::int64_t chunks = std::max<std::int64_t>(1, *std::max_element(runs.begin(), runs.end()));
  stages->chunks = std::max(stages->chunks, chunks);
  for (std::int64_t stage = 0; stage < stage_count; ++stage) {
    const std::int64_t own = runs[static_cast<std::size_t>(stage)];
    if (chunks > 1 && own != chunks)
      return unsupported(
          fmt::format("the target layout has the layers of '{}' in {} runs on stage {}, and in {} on "
                      "others: virtual stages are as many on each",
                      stack, own, stage, chunks));
  }
  // Reading counts layers chunk by chunk, stage by stage.
  std::pair<std::int64_t, std::int64_t> last{0, 0};
  for (const LayerPlace& place : places) {
    const std::pair<std::int64_t, std::int64_t> here{place.chunk, place.stage};
    if (here < last)
      return unsupported(
          fmt::format("the target layout has the layers of '{}' on stages in another order than that of "
                      "the stages",
                      stack));
    last = here;
  }
  return {};
}

Result<void> count_experts(const TargetState& state, std::int64_t ranks, TargetStages* stages) {
  std::set<std::int64_t> numbers;
  for (const TargetParameter& parameter : state.model)
    if (parameter.name.expert) numbers.insert(*parameter.name.expert);
  stages->experts = static_cast<std::int64_t>(numbers.size());
  if (!numbers.empty() && *numbers.rbegin() + 1 != stages->experts)
    return corrupt(fmt::format("expert {} is there, and not all before it", *numbers.rbegin()));
  if (stages->experts % ranks != 0)
    return unsupported(fmt::format("{} experts cannot be dealt out over {} ranks evenly", stages->experts, ranks));
  stages->experts_each = stages->experts / ranks;
  return {};
}

}  // namespace

Result<TargetStages> number_stages(const TargetState& state, const TargetGrid& grid, const Collection& target) {
  TargetStages stages;
  TENPLEX_ASSIGN_OR_RETURN(const StagesOfLayers found, find_stages(state, grid, target));
  for (const auto& [stack, stage_of] : found)
    TENPLEX_TRY(number_layers_of(stack, stage_of, grid.folders.pipeline_size, &stages));
  TENPLEX_TRY(count_experts(state, grid.folders.expert_size, &stages));
  return stages;
}

}  // namespace tenplex::megatron_legacy
