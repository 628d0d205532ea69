// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether the chunks that a checkpoint lists are boxes of its tensors. Pure. Threads: safe together.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Errors: corrupt for a chunk of no tensor, of another rank than its tensor, outside of it or in no file; as
/// check_tensor(). Cost: O(chunks).
Result<void> check_chunks(const CheckpointInfo& info);

}  // namespace tenplex
