// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/target_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "tenplex/ptc/layout.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::array<std::string_view, 7> kAxes = {"tp", "pp", "ep", "etp", "cp", "dp", "edp"};

struct FoundAxis {
  const Mesh* mesh = nullptr;
  std::size_t axis = 0;

  std::int64_t size() const { return mesh == nullptr ? 1 : mesh->axes()[axis].size; }
  std::int64_t at(DeviceId device) const { return mesh == nullptr ? 0 : mesh->coordinate(device, axis); }
};

FoundAxis find_axis(std::span<const Mesh> meshes, std::string_view name) {
  for (const Mesh& mesh : meshes)
    if (const auto axis = mesh.find(name)) return {&mesh, *axis};
  return {};
}

std::string folder_name(const RankFolders& sizes, const RankFolder& rank) {
  std::string name = fmt::format("mp_rank_{:02}", rank.tensor);
  if (sizes.pipeline_size > 1) name += fmt::format("_{:03}", rank.pipeline);
  if (sizes.expert_size > 1) name += fmt::format("_{:03}", rank.expert);
  return name;
}

}  // namespace

Result<TargetGrid> make_target_grid(const LayoutNote& note, int device_count) {
  TargetGrid grid;
  if (device_count == 1) {
    grid.folders.ranks.push_back({"mp_rank_00", 0, 0, 0});
    grid.devices.push_back(DeviceId(0));
    return grid;
  }
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, parse_layout(note.text, note.name));
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<Mesh> meshes, layout.make_meshes(note.mesh));
  for (const Mesh& mesh : meshes)
    for (const Mesh::Axis& axis : mesh.axes())
      if (axis.size > 1 && std::find(kAxes.begin(), kAxes.end(), axis.name) == kAxes.end())
        return unsupported(fmt::format(
            "layout '{}' cuts over axis '{}': files of a legacy checkpoint are of tensor (tp), pipeline (pp) "
            "and expert (ep) parallel ranks",
            note.name, axis.name));
  const FoundAxis tensor = find_axis(meshes, "tp");
  const FoundAxis pipeline = find_axis(meshes, "pp");
  const FoundAxis expert = find_axis(meshes, "ep");
  const FoundAxis expert_tensor = find_axis(meshes, "etp");
  if (expert_tensor.mesh != nullptr && expert_tensor.size() != tensor.size() && expert.size() > 1)
    return unsupported(fmt::format("layout '{}' has tp {} and etp {}: a legacy checkpoint has one of both", note.name,
                                   tensor.size(), expert_tensor.size()));
  grid.folders.tensor_size = tensor.size();
  grid.folders.pipeline_size = pipeline.size();
  grid.folders.expert_size = expert.size();
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, DeviceId> first;
  for (std::int64_t index = 0; index < device_count; ++index) {
    const DeviceId device(static_cast<std::size_t>(index));
    first.try_emplace({pipeline.at(device), expert.at(device), tensor.at(device)}, device);
  }
  for (const auto& [place, device] : first) {
    RankFolder& rank = grid.folders.ranks.emplace_back();
    std::tie(rank.pipeline, rank.expert, rank.tensor) = place;
    rank.name = folder_name(grid.folders, rank);
    grid.devices.push_back(device);
  }
  const std::int64_t expected = tensor.size() * pipeline.size() * expert.size();
  if (static_cast<std::int64_t>(first.size()) != expected)
    return unsupported(fmt::format("layout '{}' has {} places for {} tensor, {} pipeline and {} expert ranks",
                                   note.name, first.size(), tensor.size(), pipeline.size(), expert.size()));
  return grid;
}

}  // namespace tenplex::megatron_legacy
