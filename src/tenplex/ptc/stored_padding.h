// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which rows of stored tensors are data, where a checkpoint was written with its padding:
//
//   pad: {dim: 0, multiple_of: [4, tp], data: 13}     stored [16, 8] ──► real [13, 8]
//
// Pure. Threads: safe together.
#pragma once

#include <optional>
#include <vector>

#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// True if a rule of the layout says how many rows are data.
bool tells_padding(const Layout& layout);

/// `stored` with the extents that are data, wherever the layout says so; optimizer slots as the rule that cuts them.
/// A stored extent is the data's, or what the rule pads it to on the mesh that the checkpoint was written on. `mesh`
/// has its sizes; without them they may be any, so that a multiple of the rule's other factors will do.
/// Errors: invalid_argument for any other extent, naming the tensor, both shapes, and the rule with its line; for a
/// tensor that no rule matches, a size without a value and an axis that the layout does not have.
Result<std::vector<TensorInfo>> without_padding(const Layout& layout, const std::optional<MeshSizes>& mesh,
                                                std::vector<TensorInfo> stored);

}  // namespace tenplex
