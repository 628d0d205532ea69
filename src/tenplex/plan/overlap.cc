// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/overlap.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace tenplex {
namespace {

constexpr std::size_t kFanout = 16;

using Bounds = std::array<std::int64_t, std::size_t{2} * kMaxRank>;

Bounds bounds_of(const Box& box) {
  Bounds bounds{};
  const auto rank = static_cast<std::size_t>(box.rank());
  if (rank == 0) {
    bounds[1] = 1;
    return bounds;
  }
  for (std::size_t dim = 0; dim < rank; ++dim) {
    bounds[dim] = box.offset[static_cast<int>(dim)];
    bounds[rank + dim] = box.end(static_cast<int>(dim));
  }
  return bounds;
}

template <int kRank>
bool meet(const std::int64_t* a, const std::int64_t* b) {
  bool common = true;
  for (int dim = 0; dim < kRank; ++dim) common &= (a[dim] < b[kRank + dim]) & (b[dim] < a[kRank + dim]);
  return common;
}

}  // namespace

BoxIndex::BoxIndex(int rank) : rank_(std::max(rank, 1)), scalar_(rank == 0), levels_(1) {
  TENPLEX_CHECK(rank >= 0 && rank <= kMaxRank);
}

void BoxIndex::add(const Box& box) {
  TENPLEX_CHECK(box.rank() == (scalar_ ? 0 : rank_) && number_.size() == position_.size());
  const Bounds bounds = bounds_of(box);
  levels_[0].bounds.insert(levels_[0].bounds.end(), bounds.begin(), bounds.begin() + row_size());
  number_.push_back(static_cast<std::uint32_t>(number_.size()));
  position_.push_back(number_.back());
}

void BoxIndex::build() {
  const std::size_t count = number_.size();
  levels_[0].count = count;
  if (count > kFanout) {
    arrange(0, count);
    const std::vector<std::int64_t> unordered = std::move(levels_[0].bounds);
    levels_[0].bounds.clear();
    levels_[0].bounds.reserve(unordered.size());
    for (std::size_t position = 0; position < count; ++position) {
      const auto first = unordered.begin() + row_size() * static_cast<std::ptrdiff_t>(number_[position]);
      levels_[0].bounds.insert(levels_[0].bounds.end(), first, first + row_size());
      position_[number_[position]] = static_cast<std::uint32_t>(position);
    }
  }
  add_levels();
}

int BoxIndex::most_cut_dim(std::size_t begin, std::size_t end) const {
  int best_dim = 0;
  double best_cuts = -1;
  for (int dim = 0; dim < rank_; ++dim) {
    double low = 0;
    double high = 0;
    double length = 0;
    for (std::size_t position = begin; position < end; ++position) {
      const std::int64_t* bounds = &levels_[0].bounds[2 * static_cast<std::size_t>(rank_) * number_[position]];
      const auto first = static_cast<double>(bounds[dim]);
      low = position == begin ? first : std::min(low, first);
      high = position == begin ? first : std::max(high, first);
      length += static_cast<double>(bounds[rank_ + dim] - bounds[dim]);
    }
    const double cuts = (high - low) / std::max(length, 1.0);
    if (cuts > best_cuts) {
      best_cuts = cuts;
      best_dim = dim;
    }
  }
  return best_dim;
}

// Halves number_[begin, end) until a part fits in a node, splitting only at the bounds of nodes of the highest level
// that fits. The depth is at most log2 of the number of boxes.
void BoxIndex::arrange(std::size_t begin, std::size_t end) {
  const std::size_t count = end - begin;
  if (count <= kFanout) return;
  std::size_t unit = kFanout;
  while (unit * kFanout < count) unit *= kFanout;
  const std::size_t nodes = (count + unit - 1) / unit;
  const std::size_t middle = begin + nodes / 2 * unit;
  const auto dim = static_cast<std::size_t>(most_cut_dim(begin, end));
  const auto width = 2 * static_cast<std::size_t>(rank_);
  const auto at = [this](std::size_t position) { return number_.begin() + static_cast<std::ptrdiff_t>(position); };
  std::nth_element(at(begin), at(middle), at(end), [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t first = levels_[0].bounds[width * a + dim];
    const std::int64_t second = levels_[0].bounds[width * b + dim];
    return first != second ? first < second : a < b;
  });
  arrange(begin, middle);
  arrange(middle, end);
}

void BoxIndex::add_levels() {
  const auto rank = static_cast<std::size_t>(rank_);
  while (levels_.back().count > kFanout) {
    const Level& below = levels_.back();
    Level level;
    level.count = (below.count + kFanout - 1) / kFanout;
    level.bounds.reserve(level.count * 2 * rank);
    for (std::size_t first = 0; first < below.count; first += kFanout) {
      Bounds hull{};
      std::copy_n(&below.bounds[first * 2 * rank], 2 * rank, hull.begin());
      for (std::size_t entry = first + 1; entry < std::min(first + kFanout, below.count); ++entry)
        for (std::size_t dim = 0; dim < rank; ++dim) {
          hull[dim] = std::min(hull[dim], below.bounds[entry * 2 * rank + dim]);
          hull[rank + dim] = std::max(hull[rank + dim], below.bounds[entry * 2 * rank + rank + dim]);
        }
      level.bounds.insert(level.bounds.end(), hull.begin(), hull.begin() + row_size());
    }
    levels_.push_back(std::move(level));
  }
}

Box BoxIndex::box(std::uint32_t number) const {
  Box box;
  if (scalar_) return box;
  const std::int64_t* begins = bounds(number);
  const std::int64_t* ends = begins + rank_;
  for (int dim = 0; dim < rank_; ++dim) {
    box.offset.push_back(begins[dim]);
    box.extent.push_back(ends[dim] - begins[dim]);
  }
  return box;
}

// Visits the entries of one node that meet `query`; `visit_entry` says whether to go on. The depth is the tree's.
template <int kRank, typename Visit>
bool BoxIndex::visit(std::size_t level, std::size_t begin, const std::int64_t* query, Visit& visit_entry) const {
  const Level& entries = levels_[level];
  const std::size_t end = std::min(begin + kFanout, entries.count);
  for (std::size_t entry = begin; entry < end; ++entry) {
    if (!meet<kRank>(&entries.bounds[entry * 2 * kRank], query)) continue;
    const bool go_on =
        level == 0 ? visit_entry(number_[entry]) : visit<kRank>(level - 1, entry * kFanout, query, visit_entry);
    if (!go_on) return false;
  }
  return true;
}

template <typename Visit>
void BoxIndex::visit_all(const std::int64_t* query, Visit& visit_entry) const {
  const std::size_t top = levels_.size() - 1;
  switch (rank_) {
    case 1:
      visit<1>(top, 0, query, visit_entry);
      break;
    case 2:
      visit<2>(top, 0, query, visit_entry);
      break;
    case 3:
      visit<3>(top, 0, query, visit_entry);
      break;
    case 4:
      visit<4>(top, 0, query, visit_entry);
      break;
    case 5:
      visit<5>(top, 0, query, visit_entry);
      break;
    case 6:
      visit<6>(top, 0, query, visit_entry);
      break;
    case 7:
      visit<7>(top, 0, query, visit_entry);
      break;
    default:
      visit<8>(top, 0, query, visit_entry);
  }
}

void BoxIndex::find(const Box& query, std::vector<std::uint32_t>* numbers) const {
  TENPLEX_CHECK(query.rank() == (scalar_ ? 0 : rank_));
  numbers->clear();
  const Bounds bounds = bounds_of(query);
  auto collect = [numbers](std::uint32_t number) {
    numbers->push_back(number);
    return true;
  };
  visit_all(bounds.data(), collect);
  if (!std::is_sorted(numbers->begin(), numbers->end())) std::sort(numbers->begin(), numbers->end());
}

bool BoxIndex::is_shadowed(std::uint32_t number) const {
  bool shadowed = false;
  auto look = [number, &shadowed](std::uint32_t other) {
    shadowed = other < number;
    return !shadowed;
  };
  visit_all(bounds(number), look);
  return shadowed;
}

}  // namespace tenplex
