// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the folder of a tag that DeepSpeed's save_checkpoint() wrote with ZeRO stage 1, 2 or 3.
// Threads: as Format says.
#pragma once

#include <memory>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/deepspeed/rank_files.h"

namespace tenplex::deepspeed {

/// Errors: corrupt, unsupported and io, as open_deepspeed().
Result<std::unique_ptr<CheckpointReader>> open_zero(FileSystem& files, const TagFiles& tag, const ReadOptions& options);

}  // namespace tenplex::deepspeed
