// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The state tree of a checkpoint whose buckets have been decoded: what it would be if the optimizer had been saved
// fully_reshardable.
//
//   {"common": {"optimizer": {"param_state_sharding_type": "dp_reshardable"}},
//    "optimizer.distributed.dp_group_idx_0.optimizer/shard_0_1": {"param_groups": …}, …buckets…}
//   ─► {"common": {"optimizer": {"optimizer": {"param_groups": …}, "param_state_sharding_type": "fully_reshardable"}},
//       "optimizer.state.exp_avg.decoder.…": tensor, …}
//
// Pure. Threads: safe together.
#pragma once

#include <cstddef>
#include <span>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron {

/// `info->tensors` are those of the new tree, slots from `first_slot` on; `info->state` is the stored tree, whose
/// tensors `numbers` gives the new numbers of. Says in `info->problems` where ranks had other objects than the first.
/// Errors: corrupt if the root or `common` is no dict.
Result<void> put_slots_into_state(std::span<const TensorId> numbers, std::size_t first_slot, CheckpointInfo* info);

}  // namespace tenplex::megatron
