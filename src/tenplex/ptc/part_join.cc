// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/part_join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenplex {
namespace {

__extension__ using Wide = __int128;  // holds any product of two int64

Wide sum_of(std::span<const std::int64_t> values) {
  Wide sum = 0;
  for (const std::int64_t value : values) sum += value;
  return sum;
}

}  // namespace

PartJoin PartJoin::apart(std::span<const std::int64_t> extents) {
  PartJoin join;
  for (const std::int64_t extent : extents) join.parts_.push_back({extent, 0, extent});
  return join;
}

Result<PartJoin> PartJoin::joined(std::span<const std::int64_t> extents, std::int64_t blocks) {
  PartJoin join;
  for (const std::int64_t extent : extents) {
    if (extent % blocks != 0)
      return invalid_argument(fmt::format("parts of [{}] cannot be dealt out over {} blocks: {} does not divide {}",
                                          fmt::join(extents, ", "), blocks, blocks, extent));
    join.parts_.push_back({extent, join.stride_, extent / blocks});
    join.stride_ += extent / blocks;
  }
  return join;
}

std::vector<PartRun> PartJoin::runs(const PartJoin& from, const PartJoin& to, std::size_t part) {
  const Part& source = from.parts_[part];
  const Part& target = to.parts_[part];
  std::vector<PartRun> runs;
  for (std::int64_t at = 0; at < source.extent;) {
    const std::int64_t left = std::min(source.share - at % source.share, target.share - at % target.share);
    runs.push_back({at / source.share * from.stride_ + source.start + at % source.share,
                    at / target.share * to.stride_ + target.start + at % target.share, left});
    at += left;
  }
  return runs;
}

Result<std::vector<std::int64_t>> part_extents(std::int64_t total, std::span<const std::int64_t> widths) {
  const Wide sum = sum_of(widths);
  std::vector<std::int64_t> extents;
  for (const std::int64_t width : widths) {
    const Wide scaled = Wide{total} * width;
    if (scaled % sum != 0)
      return invalid_argument(
          fmt::format("parts of widths [{}] do not divide an extent of {}", fmt::join(widths, ", "), total));
    extents.push_back(static_cast<std::int64_t>(scaled / sum));
  }
  return extents;
}

bool in_proportion(std::span<const std::int64_t> extents, std::span<const std::int64_t> widths) {
  // Every part against the first: a / b == c / d is a · d == c · b.
  for (std::size_t part = 1; part < extents.size(); ++part)
    if (Wide{extents[part]} * widths[0] != Wide{extents[0]} * widths[part]) return false;
  return true;
}

}  // namespace tenplex
