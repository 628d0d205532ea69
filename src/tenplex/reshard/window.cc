// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/window.h"

#include <algorithm>

#include "tenplex/base/checked.h"

namespace tenplex {

WindowGrid::WindowGrid(const Box& whole, std::int64_t max_units) : whole_(whole) {
  if (whole.rank() == 0) return;
  std::int64_t inner = 1;  // units of one step along dim_
  for (dim_ = whole.rank() - 1; dim_ > 0 && inner * whole.extent[dim_] <= max_units; --dim_)
    inner *= whole.extent[dim_];
  const std::int64_t extent = whole.extent[dim_];
  const std::int64_t wanted = std::clamp<std::int64_t>(max_units / inner, 1, extent);
  per_outer_ = ceil_div(extent, wanted);
  step_ = ceil_div(extent, per_outer_);  // equal steps
  per_outer_ = ceil_div(extent, step_);
  count_ = per_outer_;
  for (int dim = 0; dim < dim_; ++dim) count_ *= whole.extent[dim];
}

Box WindowGrid::window(std::int64_t index) const {
  Box box = whole_;
  if (whole_.rank() == 0) return box;
  const std::int64_t begin = index % per_outer_ * step_;
  box.offset[dim_] += begin;
  box.extent[dim_] = std::min(step_, whole_.extent[dim_] - begin);
  index /= per_outer_;
  for (int dim = dim_ - 1; dim >= 0; --dim) {
    box.offset[dim] += index % whole_.extent[dim];
    box.extent[dim] = 1;
    index /= whole_.extent[dim];
  }
  return box;
}

std::int64_t WindowGrid::index_of(const Dims& position) const {
  if (whole_.rank() == 0) return 0;
  std::int64_t index = 0;
  for (int dim = 0; dim < dim_; ++dim) index = index * whole_.extent[dim] + position[dim] - whole_.offset[dim];
  return index * per_outer_ + (position[dim_] - whole_.offset[dim_]) / step_;
}

std::int64_t WindowGrid::first_of(const Box& box) const { return index_of(box.offset); }

std::int64_t WindowGrid::last_of(const Box& box) const {
  Dims last = box.offset;
  for (int dim = 0; dim < box.rank(); ++dim) last[dim] += box.extent[dim] - 1;
  return index_of(last);
}

}  // namespace tenplex
