// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Buckets of flat optimizer state (dp_reshardable) that could not be decoded (bucket_decoder.h): one set per rank of
// the model-parallel grid.
//
//   optimizer.distributed.dp_group_idx_1.gbuf_idx_0.dtype_(…).bucket_idx_0.exp_avg     of tp rank 1 of 2
//
// So they can only be carried as they are, to a target with the same grid.
//
// Pure functions. Threads: safe together.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron {

/// Errors: unsupported if the source has buckets and the target's mesh another grid than they were made for.
Result<void> check_buckets(const CheckpointInfo& source, const LayoutNote& target);

}  // namespace tenplex::megatron
