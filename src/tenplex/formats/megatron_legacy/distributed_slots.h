// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the slots of a rank's parameters lie in its distrib_optim.pt. Parameters are in the order of the model, see
// megatron/flat_buffer.h. Pure. Threads: safe together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/megatron_legacy/distributed_state.h"
#include "tenplex/formats/megatron_legacy/optimizer_slots.h"

namespace tenplex::megatron_legacy {

struct FlatSlot {
  std::size_t parameter = 0;  ///< in the list given
  std::string slot;           ///< "param", "exp_avg", …
  TensorId stored;            ///< in the file of the state
  std::int64_t begin = 0;     ///< element
};

/// What the arguments say of how buffers were cut into buckets.
struct BucketNotes {
  bool shares_embeddings = false;           ///< the word embeddings have a bucket of their own
  std::optional<std::int64_t> bucket_size;  ///< of the first virtual stage
};

/// `model` is the rank's file with the parameters. Errors: corrupt, naming buffer and numbers, if the parameters do not
/// fill the buffers.
Result<std::vector<FlatSlot>> place_flat_slots(const DistributedState& state, const CheckpointInfo& model,
                                               std::span<const OwnParameter> parameters, const BucketNotes& notes);

}  // namespace tenplex::megatron_legacy
