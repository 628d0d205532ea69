// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/cell_grid.h"

#include <algorithm>
#include <array>

namespace tenplex {
namespace {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::size_t position_of(const std::vector<std::int64_t>& edges, std::int64_t edge) {
  return static_cast<std::size_t>(std::lower_bound(edges.begin(), edges.end(), edge) - edges.begin());
}

}  // namespace

std::optional<CellGrid> CellGrid::build(const std::vector<const Box*>& boxes, std::size_t most_cells) {
  CellGrid grid;
  std::size_t cells = 1;
  for (int dim = 0; dim < boxes[0]->rank(); ++dim) {
    std::vector<std::int64_t>& edges = grid.edges_.emplace_back();
    edges.reserve(2 * boxes.size());
    for (const Box* box : boxes) {
      edges.push_back(box->offset[dim]);
      edges.push_back(box->offset[dim] + box->extent[dim]);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    const std::size_t count = edges.size() - 1;
    if (count > most_cells / cells) return std::nullopt;
    cells *= count;
  }
  grid.owners_.assign(cells, 0);
  return grid;
}

// Takes the box's cells; returns the position of a box that has one of them already.
std::optional<std::size_t> CellGrid::paint(const Box& box, std::uint32_t owner) {
  const std::size_t rank = edges_.size();
  std::array<Range, kMaxRank> ranges;
  std::array<std::size_t, kMaxRank> at{};
  for (std::size_t dim = 0; dim < rank; ++dim) {
    const auto number = static_cast<int>(dim);
    ranges[dim].begin = position_of(edges_[dim], box.offset[number]);
    ranges[dim].end = position_of(edges_[dim], box.offset[number] + box.extent[number]);
    at[dim] = ranges[dim].begin;
  }
  for (;;) {
    std::size_t cell = 0;
    for (std::size_t dim = 0; dim < rank; ++dim) cell = cell * (edges_[dim].size() - 1) + at[dim];
    if (owners_[cell] != 0) return owners_[cell] - 1;
    owners_[cell] = owner;
    std::size_t dim = rank;
    while (dim > 0 && ++at[dim - 1] == ranges[dim - 1].end) {
      at[dim - 1] = ranges[dim - 1].begin;
      --dim;
    }
    if (dim == 0) return std::nullopt;
  }
}

std::optional<std::pair<std::size_t, std::size_t>> CellGrid::find_overlap(const std::vector<const Box*>& boxes) {
  for (std::size_t index = 0; index < boxes.size(); ++index)
    if (const auto other = paint(*boxes[index], static_cast<std::uint32_t>(index + 1))) return std::pair(*other, index);
  return std::nullopt;
}

}  // namespace tenplex
