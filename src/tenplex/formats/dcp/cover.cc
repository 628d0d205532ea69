// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/cover.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tenplex::dcp {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xbf58476d1ce4e5b9U;
  value ^= value >> 27;
  value *= 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

struct CornerSum {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  friend bool operator==(const CornerSum&, const CornerSum&) = default;
};

// Without initial values: the array of all corners is made for every box, and filled only as far as its rank goes.
struct CornerState {
  std::uint64_t first;
  std::uint64_t second;

  CornerState step(std::int64_t coordinate) const {
    const auto value = static_cast<std::uint64_t>(coordinate);
    return {mix(first + value), mix(second ^ (value * 0xff51afd7ed558ccdU + 1))};
  }
};

// The corners of the first dims are expanded one dimension at a time: 2^(rank + 1) steps in all.
void add_corners(const Box& box, CornerSum* sum) {
  std::array<CornerState, 1U << kMaxRank> states;
  std::array<bool, 1U << kMaxRank> negative;
  states[0] = {0x9e3779b97f4a7c15U, 0xc2b2ae3d27d4eb4fU};
  negative[0] = false;
  std::size_t count = 1;
  for (int dim = 0; dim < box.rank(); ++dim) {
    for (std::size_t i = 0; i < count; ++i) {
      const CornerState state = states[i];
      states[i] = state.step(box.offset[dim]);
      states[count + i] = state.step(box.end(dim));
      negative[count + i] = !negative[i];
    }
    count *= 2;
  }
  for (std::size_t i = 0; i < count; ++i) {
    sum->first += negative[i] ? ~states[i].first + 1 : states[i].first;
    sum->second += negative[i] ? ~states[i].second + 1 : states[i].second;
  }
}

struct Clipped {
  Box box;
  std::size_t index = 0;
};

bool covered_once(const Box& region, const std::vector<Clipped>& boxes) {
  CornerSum expected;
  CornerSum found;
  if (!region.empty()) add_corners(region, &expected);
  for (const Clipped& clipped : boxes) add_corners(clipped.box, &found);
  return expected == found;
}

std::vector<Clipped> clip_all(const Box& region, const std::vector<Clipped>& boxes) {
  std::vector<Clipped> inside;
  for (const Clipped& clipped : boxes) {
    if (const std::optional<Box> common = intersect(region, clipped.box)) inside.push_back({*common, clipped.index});
  }
  return inside;
}

// Box edges strictly inside the region, along the dimension that has most of them.
std::vector<std::int64_t> most_edges(const Box& region, const std::vector<Clipped>& boxes, int* best_dim) {
  std::vector<std::int64_t> best;
  for (int dim = 0; dim < region.rank(); ++dim) {
    std::vector<std::int64_t> edges;
    for (const Clipped& clipped : boxes) {
      for (const std::int64_t edge : {clipped.box.offset[dim], clipped.box.end(dim)}) {
        if (edge > region.offset[dim] && edge < region.end(dim)) edges.push_back(edge);
      }
    }
    if (edges.size() <= best.size()) continue;
    best = std::move(edges);
    *best_dim = dim;
  }
  return best;
}

}  // namespace

Box BoxList::operator[](std::size_t index) const {
  const auto rank = static_cast<std::size_t>(rank_);
  const std::span<const std::int64_t> dims = dims_.subspan(index * 2 * rank, 2 * rank);
  return {Dims(dims.first(rank)), Dims(dims.last(rank))};
}

std::optional<CoverFault> find_cover_fault(const Dims& shape, const BoxList& boxes) {
  Box region = Box::whole(shape);
  CornerSum expected;
  CornerSum found;
  if (!region.empty()) add_corners(region, &expected);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (const Box box = boxes[i]; !box.empty()) add_corners(box, &found);
  }
  if (expected == found) return std::nullopt;

  std::vector<Clipped> inside;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (const Box box = boxes[i]; !box.empty()) inside.push_back({box, i});
  }
  int dim = 0;
  for (std::vector<std::int64_t> edges = most_edges(region, inside, &dim); !edges.empty();
       edges = most_edges(region, inside, &dim)) {
    const auto middle = edges.begin() + static_cast<std::ptrdiff_t>(edges.size() / 2);
    std::nth_element(edges.begin(), middle, edges.end());
    Box low = region;
    Box high = region;
    low.extent[dim] = *middle - region.offset[dim];
    high.offset[dim] = *middle;
    high.extent[dim] = region.end(dim) - *middle;
    std::vector<Clipped> in_low = clip_all(low, inside);
    if (covered_once(low, in_low)) {
      region = high;
      inside = clip_all(high, inside);
    } else {
      region = low;
      inside = std::move(in_low);
    }
  }
  CoverFault fault{region, inside.empty(), 0, 0};
  if (inside.size() > 1) {
    fault.first = inside[0].index;
    fault.second = inside[1].index;
  }
  return fault;
}

}  // namespace tenplex::dcp
