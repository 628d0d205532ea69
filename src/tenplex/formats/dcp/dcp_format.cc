// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/dcp_format.h"

#include <algorithm>

namespace tenplex {

bool detect_dcp(FileSystem& files, const std::string& path) {
  const auto entries = files.list(path);
  if (!entries) return false;
  return std::any_of(entries->begin(), entries->end(), [](const FolderEntry& entry) {
    return entry.name == ".metadata" || entry.name == ".metadata.tmp" || entry.name.ends_with(".distcp");
  });
}

Format dcp_format() {
  return {"dcp", "a folder of PyTorch Distributed Checkpoint", &detect_dcp, &open_dcp, &make_dcp_writer};
}

}  // namespace tenplex
