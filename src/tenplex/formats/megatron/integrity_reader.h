// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint with an integrity.json: which files there are is checked when it is opened, their sums when
// check_files() is called, which reads all of them. Threads: as CheckpointReader.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron {

/// True if the folder has an integrity.json.
bool has_integrity(FileSystem& files, const std::string& folder);

/// `reader`, which was opened in `folder`, with a check_files(). `files` outlives it.
/// Errors: corrupt naming a file that is listed and not there, or a file of the format that is there and not listed; as
/// decode_integrity(); io.
Result<std::unique_ptr<CheckpointReader>> with_integrity(FileSystem& files, const std::string& folder,
                                                         const ReadOptions& options,
                                                         std::unique_ptr<CheckpointReader> reader);

}  // namespace tenplex::megatron
