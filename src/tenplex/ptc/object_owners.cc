// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/object_owners.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/ptc/split.h"

namespace tenplex {

Result<DeviceId> ObjectOwners::owner_of(std::string_view object) {
  for (const ObjectRule& rule : layout_.rules().objects) {
    const auto captures = rule.match.match(object);
    if (!captures) continue;
    auto device = device_of(rule, *captures);
    if (!device)
      return invalid_argument(
          fmt::format("object '{}', {}: {}", object, layout_.where(rule.line), device.error().message()));
    return device;
  }
  return DeviceId(0);
}

Result<DeviceId> ObjectOwners::device_of(const ObjectRule& rule, const NamePattern::Captures& captures) {
  const Mesh& mesh = meshes_[rule.mesh];
  if (!rule.capture.empty())
    return DeviceId(static_cast<std::int32_t>(*captured_number(captures, rule.capture) % mesh.device_count()));
  std::int64_t device = rule.device;
  for (const ObjectRule::Coordinate& coordinate : rule.coordinates) {
    const Mesh::Axis& axis = mesh.axes()[*mesh.find(coordinate.axis)];
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t index, index_along(coordinate, axis, captures));
    if (index >= axis.size)
      return invalid_argument(fmt::format("index {} along axis '{}' of size {}", index, axis.name, axis.size));
    device += index * axis.stride;
  }
  if (device >= mesh.device_count())
    return invalid_argument(fmt::format("device {} of {}", device, mesh.device_count()));
  return DeviceId(static_cast<std::int32_t>(device));
}

Result<std::int64_t> ObjectOwners::index_along(const ObjectRule::Coordinate& coordinate, const Mesh::Axis& axis,
                                               const NamePattern::Captures& captures) {
  if (coordinate.last) return axis.size - 1;
  if (coordinate.word.empty()) return coordinate.index;
  const std::int64_t number = *captured_number(captures, coordinate.word);
  if (!coordinate.of.empty()) {
    const std::int64_t count = *captured_number(captures, coordinate.of);
    if (number >= count)
      return invalid_argument(fmt::format("'{}' is {}, but there are {}", coordinate.word, number, count));
    return part_of({}, count, axis.size, number);
  }
  if (!coordinate.layer || layers_ == 0) return number % axis.size;
  auto known = stages_.find(axis.size);
  if (known == stages_.end()) {
    TENPLEX_ASSIGN_OR_RETURN(LayerStages made,
                             LayerStages::make(layout_, sizes_, std::max(layers_, number + 1), axis.size));
    known = stages_.emplace(axis.size, std::move(made)).first;
  }
  if (number >= known->second.layers())
    return invalid_argument(
        fmt::format("{}: layer {}, but there are {}", where_stages(layout_), number, known->second.layers()));
  return known->second[number];
}

}  // namespace tenplex
