// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of which only one is kept, because all must be the same: the steps that an optimizer keeps per parameter.
// Threads: safe together.
#pragma once

#include <span>
#include <utility>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Requires: check_chunks() gives no error. Errors: unsupported naming two tensors whose bytes differ; as
/// CheckpointReader::locate(); io.
Result<void> check_equal_scalars(const CheckpointReader& reader,
                                 std::span<const std::pair<TensorId, TensorId>> kept_and_left_out);

}  // namespace tenplex
