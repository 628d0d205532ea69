// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/box_sweep.h"

#include <algorithm>
#include <numeric>

#include "tenplex/plan/cell_grid.h"

namespace tenplex {
namespace {

bool share_element(const Box& a, const Box& b) {
  for (int dim = 0; dim < a.rank(); ++dim)
    if (a.offset[dim] >= b.offset[dim] + b.extent[dim] || b.offset[dim] >= a.offset[dim] + a.extent[dim]) return false;
  return true;
}

/// The dimension along which the boxes begin at most places.
int sweep_dim(const std::vector<SweptBox>& boxes) {
  const int rank = boxes[0].box->rank();
  int best = 0;
  std::size_t most = 0;
  std::vector<std::int64_t> begins(boxes.size());
  for (int dim = 0; dim < rank; ++dim) {
    std::transform(boxes.begin(), boxes.end(), begins.begin(), [dim](const SweptBox& b) { return b.box->offset[dim]; });
    std::sort(begins.begin(), begins.end());
    const auto places = static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (places > most) {
      most = places;
      best = dim;
    }
  }
  return best;
}

/// Boxes cut like a grid have about one cell each; more of them than this per box are left to the sweep.
constexpr std::size_t kCellsPerBox = 16;

std::optional<CellGrid> grid_of(const std::vector<SweptBox>& boxes, std::vector<const Box*>* pointers) {
  for (const SweptBox& box : boxes) {
    if (box.backdrop) return std::nullopt;
    pointers->push_back(box.box);
  }
  return CellGrid::build(*pointers, kCellsPerBox * boxes.size());
}

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<SweptBox>& boxes) {
  const std::size_t count = boxes.size();
  if (count < 2) return std::nullopt;
  const auto clash = [&boxes](std::size_t a, std::size_t b) {
    return !(boxes[a].backdrop && boxes[b].backdrop) && share_element(*boxes[a].box, *boxes[b].box);
  };
  constexpr std::size_t kFew = 12;
  if (count <= kFew || boxes[0].box->rank() == 0) {
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = a + 1; b < count; ++b)
        if (clash(a, b)) return std::pair(a, b);
    return std::nullopt;
  }
  std::vector<const Box*> pointers;
  if (auto grid = grid_of(boxes, &pointers)) return grid->find_overlap(pointers);
  const int dim = sweep_dim(boxes);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return boxes[a].box->offset[dim] < boxes[b].box->offset[dim]; });
  for (std::size_t first = 0; first < count; ++first) {
    const Box& box = *boxes[order[first]].box;
    const std::int64_t end = box.offset[dim] + box.extent[dim];
    for (std::size_t next = first + 1; next < count && boxes[order[next]].box->offset[dim] < end; ++next)
      if (clash(order[first], order[next])) return std::pair(order[first], order[next]);
  }
  return std::nullopt;
}

}  // namespace tenplex
