// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reader of Hugging Face model folders: whole tensors in one or more safetensors files, everything else as extra files.
// Threads: safe together.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::hf {

/// Errors: not_found for a missing shard; corrupt where index and files disagree, or two files hold one tensor;
/// invalid_argument for a path or link that leaves the folder.
Result<std::unique_ptr<CheckpointReader>> open_hf(FileSystem& files, const std::string& path,
                                                  const ReadOptions& options);

}  // namespace tenplex::hf
