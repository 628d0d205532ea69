// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a state tree when tensors get the names of a naming map's other side:
//
//   {"decoder.w": tensor, "common": {…}, "rng_state/shard_0.0_1.1": […]}
//
// The tensors at the top get their new names. What is under `common`, and sharded objects of Megatron, stay as they are
// with the tensors inside of them. Any other tree is left out if it is no more than names of tensors, else refused.
// Pure. Threads: safe together.
#pragma once

#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/tensor_map.h"

namespace tenplex {

/// Per tensor: true if it lies inside of something that keeps its name and place.
std::vector<bool> tensors_in_objects(const CheckpointInfo& info);

/// Gives `info`, whose tensors are the targets of `map` and which has neither tree nor aliases, what the tree of
/// `stored` says, as the file comment describes. Requires: `map` has tensors_in_objects(stored) as they are. Errors:
/// unsupported, naming an object that is somewhere else.
Result<void> map_state(const CheckpointInfo& stored, const TensorMap& map, CheckpointInfo* info);

}  // namespace tenplex
