// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Slicing: how one tensor is cut, as an ordered list of cuts. Each cut is applied to the local array that the cut
// before it left, so that two cuts of one dimension can come in either order.
//
//   [16, h] ── dim 0 in 2 ──► rows 8..15 ── dim 0 in 4 ──► rows 10..11       part indices {1, 1}
//   [gate; up] ── dim 0 in 2, segments 1:1 ──► first halves of gate and of up, one after the other
//   [4, 3] ── flat in 5 ──► elements 3..5 of the row-major flattening, as a 1-D local array
//
// A part is addressed by one index per cut. Nothing is listed: a part's pieces are computed when asked for.
// Value type, immutable. Threads: as any value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/run_list.h"
#include "tenplex/ptc/split.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// Cuts one dimension. With `segments`, the dimension consists of several segments that are cut one by one; the local
/// array holds this part of the first, then this part of the second, and so on.
struct DimCut {
  int dim = 0;
  std::int64_t parts = 1;
  Split split;
  std::vector<std::int64_t> segments;  ///< ratios or widths; empty = one segment
  /// 0: segments follow each other. Else equal segments alternate in blocks of this many indices (the last block of
  /// each is shorter if need be): w|v|w|v…
  std::int64_t interleave = 0;
  /// The same for the segments' parts in the local array.
  std::int64_t local_interleave = 0;
  /// Not empty: the part of every index, instead of all that; a part holds its indices in order.
  std::vector<std::int64_t> table{};
};

/// Cuts the row-major flattening of the local array; the result is 1-D. In a bucket, the flattenings of several tensors
/// follow each other and the bucket is cut; the local array is what falls on this tensor.
struct FlatCut {
  std::int64_t parts = 1;
  Split split;                     ///< no widths
  bool padded = false;             ///< every part is as long as the first; the rest of it is padding
  std::int64_t bucket_offset = 0;  ///< of this tensor's first element
  std::int64_t bucket_size = -1;   ///< elements, padding included; −1: the tensor is its own bucket
};

using Cut = std::variant<DimCut, FlatCut>;

/// Indices [data, padded) of one dimension of the array to be cut are padding and no part of the tensor.
struct PaddedDim {
  int dim = 0;
  std::int64_t padded = 0;  ///< extent with padding
};

class Slicing {
 public:
  static constexpr std::int64_t kMaxPieces = std::int64_t{1} << 20;  ///< of one part

  Slicing() = default;

  /// Errors: invalid_argument if a cut does not fit the array that it meets (a dimension that is not there, segments or
  /// widths that do not add up, a second bucket); out_of_range if one part may have more than kMaxPieces pieces.
  /// Requires: a shape that check_tensor() accepts.
  static Result<Slicing> make(const Dims& shape, std::optional<PaddedDim> padding, std::vector<Cut> cuts);

  const Dims& shape() const { return shape_; }
  std::span<const Cut> cuts() const { return cuts_; }
  /// Product of the cuts' parts.
  std::int64_t part_count() const;

  /// Replaces `*shard`. Requires: one index per cut, inside its parts.
  void sub_tensor(std::span<const std::int64_t> parts, SubTensor* shard) const;

  /// Elements of the local array, padding included, if all parts have the same number.
  std::optional<std::int64_t> uniform_local_volume() const { return uniform_volume_; }

 private:
  struct FlatRange;

  Result<void> check();
  void cut_boxes(std::span<const std::int64_t> parts, SubTensor* shard) const;
  void cut_runs(std::span<const std::int64_t> parts, SubTensor* shard) const;

  Dims shape_;
  Dims padded_shape_;
  std::vector<Cut> cuts_;
  bool boxes_only_ = true;  // every part is one box: no segments, padding or flat cuts
  std::optional<std::int64_t> uniform_volume_;
};

/// Indices of one dimension after a cut. Requires: the cut fits (Slicing::make() checks that).
RunList cut_dimension(const RunList& runs, const DimCut& cut, std::int64_t part);

}  // namespace tenplex
