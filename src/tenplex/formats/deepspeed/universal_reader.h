// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a universal checkpoint: a whole tensor per file.
//
//   zero/<parameter>/fp32.pt, exp_avg.pt, …   {'param': tensor, 'cat_dim': 0, …}, or a bare flat tensor (ZeRO-3)
//   zero/<parameter>/step.pt                  a number
//   zero/optimizer_state.pt                   what the optimizer has beside tensors
//
// Threads: as Format says.
#pragma once

#include <memory>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/deepspeed/rank_files.h"

namespace tenplex::deepspeed {

/// Errors: corrupt, unsupported and io, as open_deepspeed().
Result<std::unique_ptr<CheckpointReader>> open_universal(FileSystem& files, const TagFiles& tag,
                                                         const ReadOptions& options);

}  // namespace tenplex::deepspeed
