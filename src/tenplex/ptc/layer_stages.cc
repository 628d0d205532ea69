// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layer_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

/// Layers of the chunks of every round, where the first or the last stage has a number of its own.
Result<std::vector<std::int64_t>> uneven_widths(std::int64_t layers, std::int64_t stages, std::int64_t rounds,
                                                std::int64_t first, std::int64_t last) {
  const std::int64_t others = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t rest = layers - first - last;
  if (first % rounds != 0 || last % rounds != 0 || rest < 0 ||
      (others == 0 ? rest != 0 : rest % (others * rounds) != 0))
    return invalid_argument(
        fmt::format("{} layers cannot be dealt out over {} stages of {} chunks with {} in the first and {} in the last",
                    layers, stages, rounds, first, last));
  std::vector<std::int64_t> widths;
  widths.reserve(static_cast<std::size_t>(stages * rounds));
  for (std::int64_t round = 0; round < rounds; ++round)
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t width = others == 0 ? 0 : rest / others;
      if (stage == 0 && first > 0) width = first;
      if (stage == stages - 1 && last > 0) width = last;
      widths.push_back(width / rounds);
    }
  return widths;
}

Result<Split> split_of(const StageTable& table, const LayoutSizes& sizes, std::int64_t layers, std::int64_t stages,
                       std::int64_t rounds) {
  Split split{table.split, {}};
  TENPLEX_ASSIGN_OR_RETURN(split.widths, sizes.values_of(table.widths));
  std::int64_t first = 0;
  std::int64_t last = 0;
  if (table.first) {
    TENPLEX_ASSIGN_OR_RETURN(first, sizes.value_of(*table.first, nullptr));
  }
  if (table.last) {
    TENPLEX_ASSIGN_OR_RETURN(last, sizes.value_of(*table.last, nullptr));
  }
  if (first == 0 && last == 0) return split;
  split.kind = Split::Kind::kWidths;
  if (first > layers || last > layers)
    return invalid_argument(
        fmt::format("{} and {} layers in the first and the last stage, but there are {}", first, last, layers));
  TENPLEX_ASSIGN_OR_RETURN(split.widths, uneven_widths(layers, stages, rounds, first, last));
  return split;
}

}  // namespace

std::string where_stages(const Layout& layout) {
  const int line = layout.rules().stages.line;
  return line == 0 ? std::string("stages") : layout.where(line);
}

Result<LayerStages> LayerStages::make(const Layout& layout, const LayoutSizes& sizes, std::int64_t found,
                                      std::int64_t stages) {
  const StageTable& table = layout.rules().stages;
  const auto failed = [&](std::string_view message) {
    return invalid_argument(fmt::format("{}: {}", where_stages(layout), message));
  };
  std::int64_t layers = found;
  if (table.layers) {
    TENPLEX_ASSIGN_OR_RETURN(layers, sizes.value_of(*table.layers, nullptr));
  }
  if (layers > kMaxLayers) return out_of_range(fmt::format("{}: {} layers", where_stages(layout), layers));
  LayerStages made;
  if (!table.table.empty()) {
    if (static_cast<std::int64_t>(table.table.size()) < layers)
      return failed(fmt::format("the table has {} layers, found layer {}", table.table.size(), layers - 1));
    made.stage_of_.assign(table.table.begin(), table.table.begin() + layers);
    for (const std::int64_t stage : made.stage_of_)
      if (stage >= stages) return failed(fmt::format("stage {} of {} ('{}')", stage, stages, table.axis));
    return made;
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t rounds, sizes.value_of(table.virtual_stages, nullptr));
  const auto chunks = checked_mul(stages, rounds);
  if (!chunks || *chunks < 1 || *chunks > kMaxDevices) return failed(fmt::format("{} virtual stages", rounds));
  if (stages == 1 && table.widths.empty()) {
    made.stage_of_.assign(static_cast<std::size_t>(layers), 0);
    return made;
  }
  auto split = split_of(table, sizes, layers, stages, rounds);
  if (!split) return std::move(split).with_context(where_stages(layout)).error();
  const std::int64_t parts = *chunks;
  TENPLEX_TRY(check_split(*split, layers, parts)
                  .with_context(fmt::format("{}: {} layers over {} stages", where_stages(layout), layers, parts)));
  made.stage_of_.reserve(static_cast<std::size_t>(layers));
  for (std::int64_t chunk = 0; chunk < parts; ++chunk)
    made.stage_of_.insert(made.stage_of_.end(),
                          static_cast<std::size_t>(part_range(*split, layers, parts, chunk).length), chunk % stages);
  return made;
}

}  // namespace tenplex
