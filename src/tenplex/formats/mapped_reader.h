// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint whose tensors are put together from those of another one, as a TensorMap says. No byte is moved: a
// stored chunk becomes one chunk for every piece that reaches into it, at another place of the same file, with other
// strides.
//
//   stored  q [4, 2]: chunk [0:4] at byte 100, strides {2, 1}
//   mapped  qkv [8, 2]: chunk [0:2] at byte 100, chunk [4:6] at byte 116 (float32)
#pragma once

#include <memory>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/tensor_map.h"

namespace tenplex {

/// The checkpoint with the tensors of `map`, which was made for its own. What it says of its cut is left out. A state
/// tree becomes as map_state() says (mapped_state.h); a line of info().problems says so where more than the names of
/// nested dicts is lost. Tensors that are one under two names stay so if both are only renamed. Keeps `reader`.
/// Errors: as map_state(); unsupported if scalars that become one are not equal; corrupt, as check_chunks(); io.
Result<std::unique_ptr<CheckpointReader>> map_checkpoint(std::unique_ptr<CheckpointReader> reader, TensorMap map);

}  // namespace tenplex
