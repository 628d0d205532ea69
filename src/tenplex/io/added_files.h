// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// AddedFiles: new files in a folder that may hold others already. Each appears whole; all go again, and the folders
// made for them, unless keep() is called, so that a run that fails adds nothing.
//
//   objects/          there before, or created
//     old.pkl         untouched
//     0.pkl  a/1.pkl  written beside their names, finished ─► publish() ─► keep()
//
// A file that is there already with the bytes that are to be written counts as written: what a killed run left behind
// does not stand in the way of the next one.
//
// Resource. Threads: one at a time; the sinks as ByteSink says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/io/commit.h"
#include "tenplex/io/file_system.h"

namespace tenplex {

class AddedFiles {
 public:
  /// `files` outlives the object. Nothing is created before the first create_file().
  AddedFiles(FileSystem& files, std::string_view folder);
  ~AddedFiles();
  AddedFiles(const AddedFiles&) = delete;
  AddedFiles& operator=(const AddedFiles&) = delete;

  /// Creates a file of `size_bytes`, and the folders above it where they are missing (the parent of the folder itself
  /// must exist). Errors: already_exists, naming the file, if it is there with another size (from the sink's writes:
  /// with other bytes); invalid_argument for an unsafe path; not_found; resource_exhausted; io.
  Result<std::unique_ptr<ByteSink>> create_file(const std::string& relative, std::int64_t size_bytes);

  /// Gives all files so far their names. Requires: every sink was finished or closed.
  /// Errors: already_exists if somebody made one meanwhile; io.
  Result<void> publish();

  /// Makes these names durable. Errors: io.
  Result<void> sync_names();

  /// The files stay.
  void keep() { created_.clear(); }

 private:
  Result<void> make_folder(const std::string& path);

  FileSystem& files_;
  const std::string folder_;
  std::vector<std::unique_ptr<AtomicTarget>> unpublished_;
  std::vector<std::string> created_;  // files and folders, in the order of their creation
  std::vector<std::string> touched_;  // folders with new entries
};

}  // namespace tenplex
