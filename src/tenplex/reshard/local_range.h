// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which elements of a strided box lie in a range of the array that it is stored in: the inverse of a piece, needed when
// an array is filled in its own order.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/reshard/unit.h"

namespace tenplex {

/// Replaces `*boxes` by disjoint boxes that hold exactly the units of `box` whose bytes lie in [begin, end).
/// Requires: strides are not negative; no unit straddles `begin` or `end`.
/// Cost: O(rank) boxes when the strides nest, as those of slices, permutations and flat ranges do.
void boxes_in_range(const Box& box, const ByteView& view, std::int64_t unit_bytes, std::int64_t begin, std::int64_t end,
                    std::vector<Box>* boxes);

}  // namespace tenplex
