// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which files of a checkpoint's folder are no part of the checkpoint: what would be lost if the folder were replaced.
//
// Pure but for the file system. Threads: safe together.
#pragma once

#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Paths relative to `folder`, sorted; links count as files and are not followed, empty folders do not count. Part of a
/// checkpoint are its data files, what its format puts beside them, and the extra files that it lists itself. A Hugging
/// Face folder lists none: there the names say it (configuration, tokenizer, model card, licence, model code).
/// `info` is that of the checkpoint in `folder`. Errors: not_found, io.
Result<std::vector<std::string>> other_files(FileSystem& files, const std::string& folder, const CheckpointInfo& info);

}  // namespace tenplex
