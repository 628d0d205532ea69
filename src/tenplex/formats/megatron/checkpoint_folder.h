// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where in a folder that Megatron-LM saved into the newest checkpoint lies:
//
//   latest_checkpointed_iteration.txt   "70" ─► iter_0000070     "release" ─► release
//   iter_0000070/metadata.json          torch_dist
//
// Pure but for the file system. Threads: safe together.
#pragma once

#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron {

/// The folder that the path means: itself, or the one that its latest_checkpointed_iteration.txt names.
/// Errors: corrupt if that file says no iteration; io.
Result<std::string> find_checkpoint_folder(FileSystem& files, const std::string& path);

/// True if the folder holds what Megatron-Core's torch_dist saves, or what an unfinished save of it leaves.
bool is_torch_dist(FileSystem& files, const std::string& folder);

}  // namespace tenplex::megatron
