// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a library on top of DCP stores in its own way. The defaults are those of torch.distributed.checkpoint itself.
//
//   torch      {"model": {"w": tensor}, "step": 7}      names with a way in the tree; objects as they are
//   a dialect  {"common": {…}, "w": tensor, "k/shard_0_1": …}   flat names; each object in a list of one; "common" is a
//              file of torch.save beside the data, or one of the objects
//
// Value type. Threads: as any value.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/dcp/metadata.h"

namespace tenplex::dcp {

struct ReadDialect {
  std::string format = "dcp";                            ///< CheckpointInfo::format
  std::string title = "PyTorch Distributed Checkpoint";  ///< for people
  bool objects_in_lists = false;                         ///< an object is stored as a list of it alone
  /// Key of the dict of things that are not cut; empty: there is none. It is the object of the file `common_file`, or,
  /// if that is empty, the object `common_item`.
  std::string common_key;
  std::string common_file;
  std::string common_item;
  std::vector<std::string> own_files;                         ///< further names in the folder that belong to the format
  std::vector<std::pair<std::string, std::string>> metadata;  ///< for CheckpointInfo::metadata
  /// Looks at the names before anything else is read.
  std::function<Result<void>(const MetadataTables& tables)> check;
};

}  // namespace tenplex::dcp
