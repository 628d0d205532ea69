// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/local_range.h"

#include <algorithm>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

struct Open {
  Box box;
  std::int64_t offset;  // bytes, of the first unit
};

int widest_dim(const Box& box, const Dims& strides) {
  int widest = -1;
  for (int dim = 0; dim < box.rank(); ++dim)
    if (box.extent[dim] > 1 && strides[dim] > 0 && (widest < 0 || strides[dim] > strides[widest])) widest = dim;
  return widest;
}

Open part_of(const Open& whole, int dim, std::int64_t stride, std::int64_t begin, std::int64_t end) {
  Open part = whole;
  part.box.offset[dim] += begin;
  part.box.extent[dim] = end - begin;
  part.offset += begin * stride;
  return part;
}

}  // namespace

void boxes_in_range(const Box& box, const ByteView& view, std::int64_t unit_bytes, std::int64_t begin, std::int64_t end,
                    std::vector<Box>* boxes) {
  boxes->clear();
  if (box.empty() || begin >= end) return;
  std::vector<Open> open = {{box, view.offset}};
  while (!open.empty()) {
    const Open next = std::move(open.back());
    open.pop_back();
    const std::int64_t reach = next.offset + span_bytes(next.box.extent, view.strides, unit_bytes);
    if (next.offset >= end || reach <= begin) continue;
    if (next.offset >= begin && reach <= end) {
      boxes->push_back(next.box);
      continue;
    }
    const int dim = widest_dim(next.box, view.strides);
    if (dim < 0) continue;
    // Steps along the widest dimension: those that meet the range, and among them those that lie inside whole.
    const std::int64_t stride = view.strides[dim];
    const std::int64_t extent = next.box.extent[dim];
    const std::int64_t one = reach - next.offset - (extent - 1) * stride;  // span of one step
    const auto clamp = [&](std::int64_t step) { return std::clamp<std::int64_t>(step, 0, extent); };
    const std::int64_t first = clamp(begin < next.offset + one ? 0 : (begin - next.offset - one) / stride + 1);
    const std::int64_t last = clamp(ceil_div(std::max<std::int64_t>(0, end - next.offset), stride));
    const std::int64_t first_inside = std::clamp(
        clamp(ceil_div(std::max<std::int64_t>(0, begin - next.offset), stride)), first, std::max(first, last));
    const std::int64_t last_inside =
        std::clamp(clamp(end - next.offset < one ? 0 : (end - next.offset - one) / stride + 1), first_inside,
                   std::max(first_inside, last));
    for (std::int64_t i = first; i < first_inside; ++i) open.push_back(part_of(next, dim, stride, i, i + 1));
    if (first_inside < last_inside) boxes->push_back(part_of(next, dim, stride, first_inside, last_inside).box);
    for (std::int64_t i = last_inside; i < last; ++i) open.push_back(part_of(next, dim, stride, i, i + 1));
  }
}

}  // namespace tenplex
