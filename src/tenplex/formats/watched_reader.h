// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A CheckpointReader whose files are watched from before the first byte is read: see io/watched_file_system.h.
#pragma once

#include <functional>
#include <memory>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

using OpenReader = std::function<Result<std::unique_ptr<CheckpointReader>>(FileSystem& files)>;

/// What `open` opens through the file system that it is given, with a check_unchanged() that knows all its files.
/// `files` outlives the reader. Errors: those of `open`.
Result<std::unique_ptr<CheckpointReader>> open_watched(FileSystem& files, const OpenReader& open);

/// `result`; where it says that something is corrupt and a file of the checkpoint changed meanwhile, the error that
/// says this instead, as it is the reason.
template <typename T>
Result<T> or_change_of(const CheckpointReader& reader, Result<T> result) {
  if (!result && result.error().code() == ErrorCode::kCorrupt) TENPLEX_TRY(reader.check_unchanged());
  return result;
}

}  // namespace tenplex
