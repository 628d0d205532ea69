// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// LoopNest: a box copy in its simplest form.
//
//   for every combination of the loops, outermost first:  move `unit_bytes` contiguous bytes
//
// Loops of one turn are dropped, loops that continue each other on both sides are merged, and what is contiguous on
// both sides has become part of the unit. The loop with the smallest steps in the target is the innermost one, so that
// writes go forward.
//
// Value type. Threads: as any value.
#pragma once

#include <array>
#include <cstdint>

#include "tenplex/copy/strided_copy.h"

namespace tenplex::internal {

struct Loop {
  std::int64_t turns = 1;
  std::int64_t target_step = 0;  ///< bytes
  std::int64_t source_step = 0;  ///< bytes

  friend bool operator==(const Loop&, const Loop&) = default;
};

struct LoopNest {
  std::int64_t unit_bytes = 0;  ///< 0: nothing to copy
  int loop_count = 0;
  std::array<Loop, kMaxRank> loops{};  ///< outermost first

  std::int64_t total_bytes() const {
    std::int64_t bytes = unit_bytes;
    for (int loop = 0; loop < loop_count; ++loop) bytes *= loops[static_cast<std::size_t>(loop)].turns;
    return bytes;
  }
};

LoopNest simplify(const CopyShape& shape);

}  // namespace tenplex::internal
