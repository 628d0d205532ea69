// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// CrashModel: what may be on disk when the power goes at some point of a record of file operations.
//
// Only what POSIX promises survives for certain: a file's bytes up to its last fsync, and a folder's entries up to the
// last fsync of the folder. Everything later may be there, be missing or be half there, file by file and folder by
// folder: the entries of one folder appear in the order in which they were made (a journal), data in any order in
// blocks of 512 bytes, and a file may have its new length with zeros where the data should be.
//
// Value-like; single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/io/testing/recording_file_system.h"

namespace tenplex {

class CrashModel {
 public:
  /// How much of what was not synced survives.
  enum class Survivors : unsigned char {
    kNothing,
    kEverything,
    kNamesOnly,  ///< every folder entry, no data
    kDataOnly,   ///< all data of the names that were synced
    kSome,       ///< chosen by the seed
  };

  CrashModel();

  /// A file that was durable before the record began, and the folders above it.
  void put_file(const std::string& path, std::string content);
  void put_folder(const std::string& path);

  void apply(const FileOperation& operation);

  /// The file system that a reader finds after the crash.
  std::unique_ptr<MemoryFileSystem> crash(Survivors survivors, std::uint64_t seed = 0) const;

 private:
  struct Node;
  using NodePointer = std::shared_ptr<Node>;  // a node may have a name in the durable tree, the current one, or both
  struct Change;

  NodePointer folder_of(const std::string& path) const;
  void change_entries(const NodePointer& folder, std::map<std::string, NodePointer> entries);
  void restore(const Node& folder, const std::string& path, Survivors survivors, std::uint64_t* random,
               MemoryFileSystem* files) const;

  NodePointer root_;
};

}  // namespace tenplex
