// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A folder of per-rank .safetensors files that says nothing about how its tensors are cut: "rank0.safetensors",
// "rank1.safetensors", … Only a layout tells, so it is opened in two steps:
//
//   is_rank_folder()    is it one?
//   list_rank_folder()  local tensors of every device  ─►  caller: layout + mesh ─► global shapes ─► collection
//   open_rank_folder()  collection ─► chunks
//
// Device i is the i-th file, numbers in names compared by value; a gap in the numbers is an error.
// Threads: safe together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/collection.h"

namespace tenplex::safetensors {

/// True for a folder with .safetensors files and neither manifest, `.metadata` nor index, whose files do not say how
/// they are cut. Files named like the parts of a Hugging Face model ("x-00001-of-00002.safetensors") are ranks only if
/// the first two hold a tensor of the same name. Errors: io; as read_header() for the first two files.
Result<bool> is_rank_folder(FileSystem& files, const std::string& folder, const ReadOptions& options);

struct RankFile {
  std::string name;                 ///< relative to the folder
  std::vector<TensorInfo> tensors;  ///< with their local shapes, in file order
};

/// Errors: not_found for no file or a gap in the numbering; as read_header() for each file.
Result<std::vector<RankFile>> list_rank_folder(FileSystem& files, const std::string& folder,
                                               const ReadOptions& options);

/// `collection` has one device per file, and the tensors that the files hold; `layout` says how it was made. All other
/// files of the folder are extra files. Errors: invalid_argument naming tensor,
/// file and both shapes where a file does not hold what the collection says it does, and for a tensor of a file that
/// the collection places elsewhere.
Result<std::unique_ptr<CheckpointReader>> open_rank_folder(FileSystem& files, const std::string& folder,
                                                           const Collection& collection, const LayoutNote& layout,
                                                           const ReadOptions& options);

}  // namespace tenplex::safetensors
