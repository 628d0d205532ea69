// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/loop_nest.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "tenplex/base/check.h"

namespace tenplex::internal {
namespace {

bool goes_outside(const Loop& a, const Loop& b) {
  return std::make_tuple(std::abs(a.target_step), std::abs(a.source_step)) >
         std::make_tuple(std::abs(b.target_step), std::abs(b.source_step));
}

/// True if the end of one round of `inner` is where the next turn of `outer` begins, on both sides.
bool continues(const Loop& outer, const Loop& inner) {
  return outer.target_step == inner.turns * inner.target_step && outer.source_step == inner.turns * inner.source_step;
}

}  // namespace

LoopNest simplify(const CopyShape& shape) {
  const int rank = shape.extent.rank();
  TENPLEX_CHECK(shape.target_strides.rank() == rank && shape.source_strides.rank() == rank);
  std::array<Loop, kMaxRank> sorted{};
  int count = 0;
  for (int dim = 0; dim < rank; ++dim) {
    if (shape.extent[dim] == 0) return {};
    if (shape.extent[dim] == 1) continue;
    const Loop loop{shape.extent[dim], shape.target_strides[dim], shape.source_strides[dim]};
    int at = count++;
    for (; at > 0 && goes_outside(loop, sorted[static_cast<std::size_t>(at - 1)]); --at)
      sorted[static_cast<std::size_t>(at)] = sorted[static_cast<std::size_t>(at - 1)];
    sorted[static_cast<std::size_t>(at)] = loop;
  }

  LoopNest nest{shape.element_bytes, 0, {}};
  std::array<Loop, kMaxRank> inner_first{};
  for (int at = count - 1; at >= 0; --at) {
    const Loop& loop = sorted[static_cast<std::size_t>(at)];
    if (nest.loop_count == 0 && loop.target_step == nest.unit_bytes && loop.source_step == nest.unit_bytes) {
      nest.unit_bytes *= loop.turns;
    } else if (nest.loop_count > 0 && continues(loop, inner_first[static_cast<std::size_t>(nest.loop_count - 1)])) {
      inner_first[static_cast<std::size_t>(nest.loop_count - 1)].turns *= loop.turns;
    } else {
      inner_first[static_cast<std::size_t>(nest.loop_count++)] = loop;
    }
  }
  std::reverse_copy(inner_first.begin(), inner_first.begin() + nest.loop_count, nest.loops.begin());
  return nest;
}

}  // namespace tenplex::internal
