// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// AddedFiles: new files in a folder that may hold others already. They go again, and the folders made for them, unless
// keep() is called, so that a run that fails adds nothing.
//
//   objects/          there before, or created
//     old.pkl         untouched
//     0.pkl  a/1.pkl  created, finished, names synced ─► keep()
//
// Resource. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenplex/io/file_system.h"

namespace tenplex {

class AddedFiles {
 public:
  /// `files` outlives the object. Nothing is created before the first create_file().
  AddedFiles(FileSystem& files, std::string folder);
  ~AddedFiles();
  AddedFiles(const AddedFiles&) = delete;
  AddedFiles& operator=(const AddedFiles&) = delete;

  /// Creates a file, and the folders above it where they are missing (the parent of the folder itself must exist).
  /// Errors: already_exists, naming the file; invalid_argument for an unsafe path; not_found; resource_exhausted; io.
  Result<std::unique_ptr<ByteSink>> create_file(const std::string& relative);

  /// Makes the names of all files so far durable. Errors: io.
  Result<void> sync_names();

  /// The files stay.
  void keep() { created_.clear(); }

 private:
  Result<void> make_folder(const std::string& path);

  FileSystem& files_;
  const std::string folder_;
  std::vector<std::string> created_;  // files and folders, in the order of their creation
  std::vector<std::string> touched_;  // folders with new entries
};

}  // namespace tenplex
