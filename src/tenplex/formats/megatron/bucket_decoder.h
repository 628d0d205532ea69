// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the flat buckets of a distributed optimizer (dp_reshardable) as slots of parameters, as if the checkpoint had
// been saved fully_reshardable:
//
//   optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(…).bucket_idx_0.exp_avg [228], …
//     ─► optimizer.state.exp_avg.decoder.layers.mlp.linear_fc1.weight [4, 64, 16], …
//   the objects beside them ─► common.optimizer
//
// No element is moved: a chunk is a run of a bucket's. Which elements are which parameter's follows from the order of
// the parameters, given or that of Megatron-Core's GPTModel; the lengths of all buckets must come out, and the float32
// copies must round to the values that the model has.
//
// Threads: as CheckpointReader.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron {

/// A checkpoint without buckets stays as it is. If buckets do not fit the model, they stay as they are, and a problem
/// says why. `order`: names of all parameters in the optimizer, in the order of the model; empty: not given. Errors:
/// unsupported if `order` is given and they do not fit; corrupt for damaged buckets or files; io.
Result<std::unique_ptr<CheckpointReader>> decode_buckets(std::unique_ptr<CheckpointReader> reader,
                                                         const std::vector<std::string>& order);

}  // namespace tenplex::megatron
