// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorMap: the tensors of a model under other names and shapes, each put together from boxes of the tensors that are
// there. Renaming, joining, taking apart, interleaving, transposing, stacking over a new axis: all are pieces.
//
//   q [4, 2], k [2, 2], v [2, 2]  ─►  qkv [8, 2]      target [0:2] = q[0:2]   axes {0, 1}
//                                                     target [2:3] = k[0:1]   …
//   w.0 [3, 2], w.1 [3, 2]  ─►  w [2, 3, 2]           target [1:2, 0:3, 0:2] = w.1[0:3, 0:2]   axes {-1, 0, 1}
//
// Value types. Threads: as any value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// For each axis of a target the axis of the source that it is, or −1 for a new axis. Only the first rank() count.
using AxisMap = std::array<std::int16_t, kMaxRank>;

inline constexpr std::int16_t kNewAxis = -1;

/// One box of a source that is one box of a target: the extents agree axis by axis as `axes` says, those of new axes
/// and of axes of the source that are not named are 1.
struct MapPiece {
  TensorId source;
  Box source_box;
  Box target_box;
  AxisMap axes{};

  friend bool operator==(const MapPiece&, const MapPiece&) = default;
};

/// "3[0:2, 0:4] as [4:6, 0:4] axes 0 1".
std::string to_string(const MapPiece& piece);

struct TensorMap {
  std::vector<TensorInfo> targets;
  std::vector<MapPiece> pieces;    ///< those of target t are [first[t], first[t + 1])
  std::vector<std::size_t> first;  ///< one more than targets
  /// Scalars (steps of an optimizer) of which the second is left out, because it must have the bytes of the first.
  std::vector<std::pair<TensorId, TensorId>> equal{};
  std::vector<TensorId> left_out{};  ///< sources that are part of no target

  std::span<const MapPiece> pieces_of(std::size_t target) const {
    return std::span(pieces).subspan(first[target], first[target + 1] - first[target]);
  }
};

/// The part of the piece that lies in `source_box`, or nothing. Requires: equal rank.
std::optional<MapPiece> clip(const MapPiece& piece, const Box& source_box);

/// True if the boxes are disjoint and cover `region` exactly, and straight cuts from side to side can part them (the
/// boxes of a grid, bands of bands). Boxes and regions that hold nothing count as not there. Reorders `boxes`.
/// Cost: O(boxes · log(boxes) · levels of cuts).
bool tile(std::span<Box> boxes, const Box& region);

/// Holds the map against the tensors it is made for: every element of every target comes from one element of a source,
/// and every element of every source that is not left out is used once; of scalars, which are slots, once or more
/// often, or left out for an equal one. Errors: internal, naming the tensor.
Result<void> check_map(const TensorMap& map, std::span<const TensorInfo> sources);

}  // namespace tenplex
