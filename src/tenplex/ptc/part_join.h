// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PartJoin: how parts of one tensor follow each other along a dimension.
//
//   parts q, k, v of 4, 2, 2 rows    1 block    q q q q k k v v
//                                    2 blocks   q q k v q q k v
//
// Pure. Value types. Threads: as any value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

/// A stretch of a part: where it starts in two tensors, and its length.
struct PartRun {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t size = 0;

  friend bool operator==(const PartRun&, const PartRun&) = default;
};

class PartJoin {
 public:
  /// Every part is a tensor of its own.
  static PartJoin apart(std::span<const std::int64_t> extents);

  /// Errors: invalid_argument if a part cannot be dealt out evenly over the blocks. Requires: blocks >= 1, the sum of
  /// the extents fits.
  static Result<PartJoin> joined(std::span<const std::int64_t> extents, std::int64_t blocks);

  /// The stretches of part `part` that are contiguous on both sides, in the order of the part.
  static std::vector<PartRun> runs(const PartJoin& from, const PartJoin& to, std::size_t part);

  /// True if both order their elements alike.
  friend bool operator==(const PartJoin&, const PartJoin&) = default;

 private:
  struct Part {
    std::int64_t extent = 0;
    std::int64_t start = 0;  // in the first block
    std::int64_t share = 0;  // of the part in every block
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts_;
  std::int64_t stride_ = 0;  // from block to block
};

/// The extents of parts with these widths in a dimension of `total`. Errors: invalid_argument if they are no whole
/// numbers. Requires: widths >= 1.
Result<std::vector<std::int64_t>> part_extents(std::int64_t total, std::span<const std::int64_t> widths);

/// True if the extents are to each other as the widths.
bool in_proportion(std::span<const std::int64_t> extents, std::span<const std::int64_t> widths);

}  // namespace tenplex
