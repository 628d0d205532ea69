// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Pairs of tensors of which a naming map says that their extents agree. A joined tensor does not say how long its parts
// are; the sizes do, and another tensor of the model can tell whether they are right:
//
//   q_proj [24, 32], o_proj [32, 32]   with heads 4, groups 2: refused, q_proj has as many rows as o_proj has columns
//
// Pure. Threads: safe together.
#pragma once

#include <span>

#include "tenplex/base/result.h"
#include "tenplex/ptc/naming_map.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// Holds the tensors that have the names of side `side`, and slots of them, against the agreements of that side. A
/// tensor without its other does not count. Errors: invalid_argument, naming both, their shapes and the line.
Result<void> check_agreements(const NamingMap& map, std::size_t side, std::span<const TensorInfo> tensors,
                              const NamedSizes& sizes);

}  // namespace tenplex
