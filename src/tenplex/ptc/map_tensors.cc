// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "tenplex/ptc/group_mapper.h"
#include "tenplex/ptc/map_match.h"
#include "tenplex/ptc/name_index.h"

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

}  // namespace

Result<MapResult> map_tensors(const NamingMap& map, std::span<const TensorInfo> tensors, const NamedSizes& sizes) {
  MapResult result;
  TENPLEX_ASSIGN_OR_RETURN(result.from, side_of_tensors(map, tensors));
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<MapGroup> groups, group_tensors(map, tensors, result.from));
  GroupMapper mapper(map, tensors, sizes, result.from);
  std::vector<int> lines;
  for (const MapGroup& group : groups) {
    TENPLEX_TRY(mapper.add(group, &result.map));
    lines.resize(result.map.targets.size(), group.rule->line);
  }
  result.map.first.push_back(result.map.pieces.size());
  TENPLEX_TRY(check_names(map, result.map, lines, tensors));
  TENPLEX_TRY(check_map(result.map, tensors));
  return result;
}

}  // namespace tenplex
