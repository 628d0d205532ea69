// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint of which only the first rows of some tensors count:
//
//   stored [16, 8]: chunks [0:6], [6:12], [12:14], [14:16]   clipped to [13, 8]: chunks [0:6], [6:12], [12:13]
//
// A clipped chunk starts where the stored one does and keeps its strides and its checksum. Views in the state tree
// whose storage nobody else looks at become row-major in the new shape if they were so in the old one. Names of one
// Python object that are clipped differently are several objects from then on, still in one storage.
#pragma once

#include <memory>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// The checkpoint with the shapes of `tensors`, which are the stored ones with some extents smaller. If none is, this
/// is `reader` itself; else it keeps `reader` and a copy of its info. Errors: corrupt, as check_chunks().
Result<std::unique_ptr<CheckpointReader>> clip(std::unique_ptr<CheckpointReader> reader,
                                               std::vector<TensorInfo> tensors);

}  // namespace tenplex
