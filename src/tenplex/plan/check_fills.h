// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The proof of the fills of one sub-tensor (fill.h), for engines that plan tensor by tensor. Part of the checker: it
// shares no code with what computes fills.
//
//   target   |====== piece ======|==== piece ====|     every element under exactly one fill,
//   fills    |-- a --|---- b ----|-- b --|- c ---|     each read where its source shard holds it
//
// Pure functions. Threads: any.
#pragma once

#include <cstddef>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/plan/fill.h"

namespace tenplex {

/// True if `part` is exactly what a piece of the shard gives for its box. `*hint` is the piece to try first and becomes
/// the one that was found, so that parts in the order of the pieces cost O(1) each.
bool addresses(const SubTensor& shard, const Piece& part, std::size_t* hint);

/// Proves that `fills` fill each element of `target`, a sub-tensor of `tensor`, exactly once, and that every source
/// lies in the shard of `source` that it names. Errors: internal naming the tensor, the box and what is wrong.
/// Cost: O(n log n) for n fills in the order of target's pieces.
Result<void> check_fills(const Collection& source, TensorId tensor, const SubTensor& target,
                         const std::vector<Fill>& fills);

}  // namespace tenplex
