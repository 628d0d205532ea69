// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// TreeStamp: tells one state of a file, or of a folder with all that is in it, from another, by the stamps of the
// files.
//
//   look_at("model")   config.json, sub/, sub/a, w.safetensors ──► equal stamps: the same files, not written to since
//
// Of folders only the identity counts: the times of a folder change when it gets another name. What WatchedFileSystem
// says of the clock's resolution holds here too. Values. Threads: as any value.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tenplex/io/file_system.h"

namespace tenplex {

struct TreeStamp {
  std::vector<std::pair<std::string, FileStamp>>
      entries;  ///< by relative path, the thing itself as ""; none: not there

  bool exists() const { return !entries.empty(); }

  friend bool operator==(const TreeStamp&, const TreeStamp&) = default;
};

/// Of what is at `path`; links are not followed. Nothing there is no error. Errors: io.
Result<TreeStamp> look_at(FileSystem& files, const std::string& path);

}  // namespace tenplex
