// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A folder of per-rank .safetensors files that says nothing about how its tensors are cut: "rank0.safetensors",
// "rank1.safetensors", … Only a layout tells, so it is opened in two steps:
//
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

struct RankFile {
  std::string name;                 ///< relative to the folder
  std::vector<TensorInfo> tensors;  ///< with their local shapes, in file order
};

/// Errors: not_found for no file or a gap in the numbering; as read_header() for each file.
Result<std::vector<RankFile>> list_rank_folder(FileSystem& files, const std::string& folder,
                                               const ReadOptions& options);

/// `collection` has one device per file, and the tensors that the files hold. Errors: invalid_argument naming tensor,
/// file and both shapes where a file does not hold what the collection says it does, and for a tensor of a file that
/// the collection places elsewhere.
Result<std::unique_ptr<CheckpointReader>> open_rank_folder(FileSystem& files, const std::string& folder,
                                                           const Collection& collection, const ReadOptions& options);

}  // namespace tenplex::safetensors
