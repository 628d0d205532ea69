// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The logical digest (ptc/digest.h) of every tensor of a checkpoint, streamed in bounded memory.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/base/executor.h"
#include "tenplex/base/progress.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/digest.h"

namespace tenplex {

struct DigestOptions {
  std::int64_t max_memory_bytes = std::int64_t{256} << 20;  ///< at least kMinMemoryBytes (reshard.h)
};

/// One digest per tensor, in the order of info().tensors. Phase of `progress`: "digest".
/// Errors: corrupt, io, cancelled; invalid_argument when stored chunks do not cover a tensor.
Result<std::vector<Digest>> digest_tensors(const CheckpointReader& checkpoint, const DigestOptions& options,
                                           Executor& executor, Progress& progress);

}  // namespace tenplex
