// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "tenplex/ptc/group_mapper.h"
#include "tenplex/ptc/map_agreements.h"
#include "tenplex/ptc/map_match.h"
#include "tenplex/ptc/name_index.h"
#include "tenplex/ptc/whole_model.h"

namespace tenplex {
namespace {

/// Errors: invalid_argument if two rules make tensors of one name.
Result<void> check_names(const NamingMap& map, const TensorMap& made, std::span<const int> lines,
                         std::span<const TensorInfo> sources) {
  const NameIndex index(made.targets);
  const auto second = index.repeated();
  if (!second) return {};
  const std::string& name = made.targets[second->index()].name;
  const TensorId first = *index.find(name);
  const auto source = [&](TensorId target) {
    const auto pieces = made.pieces_of(target.index());
    return pieces.empty() ? std::string_view("a tensor of no elements") : sources[pieces.front().source.index()].name;
  };
  return invalid_argument(fmt::format("'{}' ({}) and '{}' ({}) both become '{}'", source(first),
                                      map.where(lines[first.index()]), source(*second),
                                      map.where(lines[second->index()]), name));
}

/// Appends the tensors that stay as they are.
void keep(std::span<const TensorInfo> tensors, const std::vector<bool>& kept, TensorMap* made) {
  for (std::size_t index = 0; index < kept.size(); ++index) {
    if (!kept[index]) continue;
    const Box whole = Box::whole(tensors[index].shape);
    MapPiece piece{TensorId(index), whole, whole, {}};
    for (int axis = 0; axis < whole.rank(); ++axis)
      piece.axes[static_cast<std::size_t>(axis)] = static_cast<std::int16_t>(axis);
    made->targets.push_back(tensors[index]);
    made->first.push_back(made->pieces.size());
    if (!whole.empty()) made->pieces.push_back(piece);
  }
}

}  // namespace

Result<MapResult> map_tensors(const NamingMap& map, std::span<const TensorInfo> tensors, const NamedSizes& sizes,
                              const std::vector<bool>& kept) {
  MapResult result;
  TENPLEX_ASSIGN_OR_RETURN(const MapGroups matched, group_tensors(map, tensors, kept));
  result.from = matched.from;
  GroupMapper mapper(map, tensors, sizes, result.from);
  std::vector<int> lines;
  for (const MapGroup& group : matched.groups) {
    TENPLEX_TRY(mapper.add(group, &result.map));
    lines.resize(result.map.targets.size(), group.rule->line);
  }
  TENPLEX_TRY(check_whole_model(map, matched));
  keep(tensors, kept, &result.map);
  result.map.left_out = matched.dropped;
  lines.resize(result.map.targets.size(), 0);
  result.map.first.push_back(result.map.pieces.size());
  TENPLEX_TRY(check_names(map, result.map, lines, tensors));
  TENPLEX_TRY(check_agreements(map, result.from, tensors, sizes));
  TENPLEX_TRY(check_agreements(map, 1 - result.from, result.map.targets, sizes));
  TENPLEX_TRY(check_map(result.map, tensors));
  return result;
}

}  // namespace tenplex
