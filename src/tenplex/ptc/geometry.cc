// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/geometry.h"

#include <algorithm>

namespace tenplex {

Geometry::Geometry(const Mesh& mesh, Slicing slicing, const std::vector<std::vector<std::size_t>>& cut_axes,
                   const std::vector<FixedAxis>& fixed)
    : slicing_(std::move(slicing)) {
  TENPLEX_CHECK(cut_axes.size() == slicing_.cuts().size());
  std::vector<bool> is_cut(mesh.axes().size(), false);
  for (const std::vector<std::size_t>& axes : cut_axes) {
    std::vector<Step>& steps = cuts_.emplace_back();
    std::int64_t parts = 1;
    for (const std::size_t axis : axes) {
      steps.push_back({mesh.axes()[axis].stride, mesh.axes()[axis].size});
      parts *= mesh.axes()[axis].size;
      is_cut[axis] = true;
    }
    parts_.push_back(parts);
    shard_count_ *= parts;
  }
  TENPLEX_CHECK(shard_count_ == slicing_.part_count());
  for (std::size_t axis = mesh.axes().size(); axis-- > 0;) {
    if (is_cut[axis]) continue;
    FreeAxis free{mesh.axes()[axis].stride, mesh.axes()[axis].size, {}};
    for (const FixedAxis& one : fixed)
      if (one.axis == axis) free.coordinates = one.coordinates;
    if (free.size > 1) free_.push_back(std::move(free));
  }
}

void Geometry::part_indices(std::int64_t index, std::vector<std::int64_t>* parts) const {
  parts->resize(parts_.size());
  for (std::size_t cut = parts_.size(); cut-- > 0;) {
    (*parts)[cut] = index % parts_[cut];
    index /= parts_[cut];
  }
}

void Geometry::shard(std::int64_t index, SubTensor* shard) const {
  std::vector<std::int64_t> parts;
  part_indices(index, &parts);
  slicing_.sub_tensor(parts, shard);
}

void Geometry::holders(std::int64_t index, std::vector<DeviceId>* devices) const {
  std::vector<std::int64_t> parts;
  part_indices(index, &parts);
  std::int64_t base = 0;
  for (std::size_t cut = 0; cut < cuts_.size(); ++cut) {
    for (const Step& step : cuts_[cut]) {
      base += parts[cut] % step.size * step.stride;
      parts[cut] /= step.size;
    }
  }
  devices->assign(1, DeviceId(static_cast<std::int32_t>(base)));
  std::vector<DeviceId> grown;
  for (const FreeAxis& axis : free_) {
    grown.clear();
    const auto count = axis.coordinates.empty() ? axis.size : static_cast<std::int64_t>(axis.coordinates.size());
    for (const DeviceId device : *devices)
      for (std::int64_t at = 0; at < count; ++at) {
        const std::int64_t coordinate = axis.coordinates.empty() ? at : axis.coordinates[static_cast<std::size_t>(at)];
        grown.emplace_back(static_cast<std::int32_t>(device.value() + coordinate * axis.stride));
      }
    devices->swap(grown);
  }
}

std::int64_t Geometry::shard_of_device(DeviceId device) const {
  for (const FreeAxis& axis : free_) {
    if (axis.coordinates.empty()) continue;
    const std::int64_t coordinate = device.value() / axis.stride % axis.size;
    if (!std::binary_search(axis.coordinates.begin(), axis.coordinates.end(), coordinate)) return -1;
  }
  std::int64_t index = 0;
  for (std::size_t cut = 0; cut < cuts_.size(); ++cut) {
    std::int64_t part = 0;
    std::int64_t scale = 1;
    for (const Step& step : cuts_[cut]) {
      part += device.value() / step.stride % step.size * scale;
      scale *= step.size;
    }
    index = index * parts_[cut] + part;
  }
  return index;
}

}  // namespace tenplex
