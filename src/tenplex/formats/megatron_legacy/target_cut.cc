// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/target_cut.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "tenplex/formats/megatron_legacy/legacy_sizes.h"
#include "tenplex/ptc/builtin_layouts.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex::megatron_legacy {
namespace {

bool has_padding(const SubTensor& shard) {
  std::int64_t elements = 0;
  for (const Piece& piece : shard.pieces) elements += volume(piece.box);
  return elements != volume(shard.local_shape);
}

}  // namespace

Result<void> check_cut(const TargetModel& model) {
  std::vector<TensorInfo> tensors;
  tensors.reserve(model.state.model.size());
  for (const TargetParameter& parameter : model.state.model)
    tensors.push_back(model.target->tensors()[parameter.tensor.index()]);
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, builtin_layout("megatron-gpt"));
  const RankFolders& folders = model.grid.folders;
  auto read_as =
      RuleCollection::make(layout, mesh_of_stage(folders), std::move(tensors), {}, layout_sizes(*model.source));
  if (!read_as)
    return unsupported(
        fmt::format("a legacy checkpoint has what the layout 'megatron-gpt' has: {}", read_as.error().message()));
  std::vector<std::int64_t> shards;
  SubTensor written;
  SubTensor read;
  for (std::size_t index = 0; index < model.state.model.size(); ++index) {
    const TensorId tensor = model.state.model[index].tensor;
    for (std::size_t rank = 0; rank < folders.ranks.size(); ++rank) {
      model.target->shards_of_device(tensor, model.grid.devices[rank], &shards);
      if (shards.empty()) continue;
      model.target->shard(tensor, shards[0], &written);
      const RankFolder& folder = folders.ranks[rank];
      const DeviceId device(static_cast<std::size_t>(folder.tensor + folders.tensor_size * folder.expert));
      (*read_as)->shards_of_device(TensorId(index), device, &shards);
      if (!shards.empty()) (*read_as)->shard(TensorId(index), shards[0], &read);
      if (has_padding(written) || (!shards.empty() && (written == read || has_padding(read)))) continue;
      return unsupported(fmt::format(
          "tensor '{}' is cut otherwise than by the layout 'megatron-gpt', by which a legacy checkpoint is read: rank "
          "'{}' would have another part of it",
          model.target->tensors()[tensor.index()].name, folder.name));
    }
  }
  return {};
}

}  // namespace tenplex::megatron_legacy
