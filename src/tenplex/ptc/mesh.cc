// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

Result<void> check_sizes(const MeshSizes& sizes) {
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    const auto& [axis, size] = sizes[index];
    if (size < 1)
      return invalid_argument(fmt::format("mesh axis '{}': expected a size of at least 1, found {}", axis, size));
    if (size > kMaxDevices)
      return out_of_range(fmt::format("mesh axis '{}' has more than {} devices", axis, kMaxDevices));
    for (std::size_t other = 0; other < index; ++other)
      if (sizes[other].first == axis) return invalid_argument(fmt::format("mesh axis '{}' is given twice", axis));
  }
  return {};
}

std::int64_t size_of(const MeshSizes& sizes, std::string_view axis) {
  for (const auto& [name, size] : sizes)
    if (name == axis) return size;
  return 1;
}

bool is_axis_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

Result<std::vector<std::pair<std::string, std::int64_t>>> parse_named_numbers(std::string_view text,
                                                                              std::string_view what,
                                                                              std::string_view form) {
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = rest.substr(0, comma);
    if (comma + 1 == rest.size())
      return invalid_argument(fmt::format("{} '{}': nothing after the last comma", what, text));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t equals = entry.find('=');
    const std::string_view axis = entry.substr(0, equals);
    if (equals == std::string_view::npos || !is_axis_name(axis))
      return invalid_argument(fmt::format("{} '{}': expected {}, found '{}'", what, text, form, entry));
    const std::string_view digits = entry.substr(equals + 1);
    std::int64_t size = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (code != std::errc{} || end != digits.data() + digits.size())
      return invalid_argument(
          fmt::format("{} '{}': expected a whole number for '{}', found '{}'", what, text, axis, digits));
    sizes.emplace_back(axis, size);
  }
  return sizes;
}

Result<MeshSizes> parse_mesh_sizes(std::string_view text) {
  TENPLEX_ASSIGN_OR_RETURN(MeshSizes sizes, parse_named_numbers(text, "mesh", "AXIS=SIZE"));
  TENPLEX_TRY(check_sizes(sizes));
  return sizes;
}

std::string to_string(const MeshSizes& sizes) {
  std::string text;
  for (const auto& [axis, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis, size);
  return text;
}

Result<Mesh> Mesh::make(std::string name, std::span<const std::string> axes, const MeshSizes& sizes) {
  Mesh mesh;
  mesh.name_ = std::move(name);
  for (const std::string& axis : axes) {
    const std::int64_t size = size_of(sizes, axis);
    mesh.axes_.push_back({axis, size, mesh.device_count_});
    const auto next = checked_mul(mesh.device_count_, size);
    if (!next || *next > kMaxDevices)
      return out_of_range(fmt::format("mesh '{}' has more than {} devices", mesh.name_, kMaxDevices));
    mesh.device_count_ = *next;
  }
  return mesh;
}

std::optional<std::size_t> Mesh::find(std::string_view axis) const {
  for (std::size_t index = 0; index < axes_.size(); ++index)
    if (axes_[index].name == axis) return index;
  return std::nullopt;
}

std::vector<std::int64_t> Mesh::coordinates(DeviceId device) const {
  std::vector<std::int64_t> indices;
  indices.reserve(axes_.size());
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) indices.push_back(coordinate(device, axis));
  return indices;
}

DeviceId Mesh::device(std::span<const std::int64_t> coordinates) const {
  TENPLEX_CHECK(coordinates.size() == axes_.size());
  std::int64_t device = 0;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    TENPLEX_CHECK(coordinates[axis] >= 0 && coordinates[axis] < axes_[axis].size);
    device += coordinates[axis] * axes_[axis].stride;
  }
  return DeviceId(static_cast<std::int32_t>(device));
}

namespace {

bool is_given(const MeshSizes& sizes, std::string_view axis) {
  return std::any_of(sizes.begin(), sizes.end(), [axis](const auto& size) { return size.first == axis; });
}

/// What the other axes of `mesh` leave of `devices` for `axis`.
Result<std::int64_t> rest_of(const MeshAxes& mesh, const MeshAxes& first, const std::string& axis,
                             const MeshSizes& sizes) {
  TENPLEX_ASSIGN_OR_RETURN(const Mesh whole, Mesh::make(first.name, first.axes, sizes));
  TENPLEX_ASSIGN_OR_RETURN(const Mesh others, Mesh::make(mesh.name, mesh.axes, sizes));
  if (whole.device_count() % others.device_count() != 0)
    return invalid_argument(
        fmt::format("mesh '{}' [{}] has {} devices, which mesh '{}' [{}] with {} cannot share out: "
                    "'{}' is what is left",
                    first.name, fmt::join(first.axes, ", "), whole.device_count(), mesh.name,
                    fmt::join(mesh.axes, ", "), others.device_count(), axis));
  return whole.device_count() / others.device_count();
}

}  // namespace

Result<MeshSizes> complete_sizes(std::span<const MeshAxes> meshes, std::span<const AxisDefault> defaults,
                                 const MeshSizes& sizes) {
  TENPLEX_TRY(check_sizes(sizes));
  MeshSizes complete = sizes;
  for (const AxisDefault& one : defaults) {
    if (is_given(complete, one.axis)) continue;
    if (!one.like.empty()) {
      complete.emplace_back(one.axis, size_of(complete, one.like));
      continue;
    }
    for (const MeshAxes& mesh : meshes) {
      if (std::find(mesh.axes.begin(), mesh.axes.end(), one.axis) == mesh.axes.end()) continue;
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t rest, rest_of(mesh, meshes.front(), one.axis, complete));
      complete.emplace_back(one.axis, rest);
      break;
    }
  }
  return complete;
}

Result<std::vector<Mesh>> make_meshes(std::span<const MeshAxes> meshes, const MeshSizes& sizes) {
  TENPLEX_TRY(check_sizes(sizes));
  std::vector<std::string> known;
  for (const MeshAxes& mesh : meshes)
    for (const std::string& axis : mesh.axes)
      if (std::find(known.begin(), known.end(), axis) == known.end()) known.push_back(axis);
  for (const auto& [axis, size] : sizes)
    if (std::find(known.begin(), known.end(), axis) == known.end())
      return invalid_argument(
          fmt::format("unknown mesh axis '{}'; the layout's axes are: {}", axis, fmt::join(known, ", ")));
  std::vector<Mesh> made;
  for (const MeshAxes& axes : meshes) {
    TENPLEX_ASSIGN_OR_RETURN(Mesh mesh, Mesh::make(axes.name, axes.axes, sizes));
    if (!made.empty() && made.front().device_count() != mesh.device_count())
      return invalid_argument(
          fmt::format("meshes '{}' [{}] and '{}' [{}] must have the same number of devices, found {} and {}",
                      made.front().name(), fmt::join(meshes.front().axes, ", "), mesh.name(),
                      fmt::join(axes.axes, ", "), made.front().device_count(), mesh.device_count()));
    made.push_back(std::move(mesh));
  }
  return made;
}

}  // namespace tenplex
