// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What lies in a Hugging Face model folder: weights, index, and the files beside them.
// Threads: safe together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::hf {

struct Folder {
  std::string index;                   ///< name of the index, or ""
  std::string beside_index;            ///< "model.safetensors" if it is there too, which transformers reads first
  std::vector<std::string> weights;    ///< without an index: the model's .safetensors files, in order
  std::vector<ExtraFile> extra_files;  ///< all other files, also in sub-folders, sorted
  std::vector<std::string> problems;
};

/// True if the folder's names look like a Hugging Face model. Reads names only.
bool looks_like_model(const std::vector<FolderEntry>& entries);

/// For a folder that holds `other` besides `read`, the one that transformers reads: which is meant is not for us to
/// say.
Error two_models(std::string_view read, std::string_view other);

/// Errors: not_found for a missing shard of a folder without an index; invalid_argument if it is not clear which files
/// are the model, for a link that leaves the folder (unless `follow_links`), or folders nested too deeply.
Result<Folder> list_folder(FileSystem& files, const std::string& folder, bool follow_links);

}  // namespace tenplex::hf
