// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Readers of the format "safetensors".
//
//   one file                         all tensors whole; tree, sharing and aliases in its metadata
//   folder with tenplex.json         one file per device; the manifest says which part of which tensor
//   folder of DCP-flavoured files    each file's metadata gives the offsets of its chunks
//
// Threads: safe together.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::safetensors {

/// Errors: those of the parts; unsupported for a folder of per-rank files that does not say how it is cut.
Result<std::unique_ptr<CheckpointReader>> open_safetensors(FileSystem& files, const std::string& path,
                                                           const ReadOptions& options);

/// Errors: corrupt if manifest and files disagree.
Result<std::unique_ptr<CheckpointReader>> open_manifest_folder(FileSystem& files, const std::string& folder,
                                                               const ReadOptions& options);

/// `names`: the folder's files, in the order of their ranks. Global shapes are the ends of the farthest chunks, so a
/// lost last shard cannot be seen; a problem line says so. Errors: corrupt for holes and overlaps.
Result<std::unique_ptr<CheckpointReader>> open_dcp_flavoured(FileSystem& files, const std::string& folder,
                                                             const std::vector<std::string>& names,
                                                             const ReadOptions& options);

/// Names of the folder's *.safetensors files, numbers in them compared by value. Errors: as FileSystem::list().
Result<std::vector<std::string>> safetensors_files(FileSystem& files, const std::string& folder);

}  // namespace tenplex::safetensors
