// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// MemoryFileSystem: a complete FileSystem in memory, for fuzz targets and fault tests.
//
// It behaves as the local one does: parents must exist, create() and rename_new() refuse existing names, open files
// outlive their names, links are followed inside and refused outside of open_below()'s folder. Relative paths start at
// "/". Resource. Threads: all calls are safe together.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/io/file_system.h"

namespace tenplex {

struct MemoryNode;

class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  /// Creates or replaces a file, and the folders above it. Requires: no file is where a folder has to be.
  void put_file(const std::string& path, std::string content);
  void put_folder(const std::string& path);
  void put_link(const std::string& path, std::string target);

  /// What free_space() says from now on of the paths in `folder` and below; it is not counted down.
  void put_free_space(const std::string& folder, const FreeSpace& space);

  /// The content of a file. Errors: as open().
  Result<std::string> content(const std::string& path) const;

  /// Paths of all files and links below `folder`, sorted, relative to it.
  std::vector<std::string> files_below(const std::string& folder) const;

  Result<std::unique_ptr<ByteSource>> open(const std::string& path) override;
  Result<std::unique_ptr<ByteSource>> open_below(const std::string& folder, const std::string& relative) override;
  Result<std::unique_ptr<ByteSink>> create(const std::string& path) override;
  Result<void> make_folder(const std::string& path) override;
  Result<std::vector<FolderEntry>> list(const std::string& folder) override;
  Result<FileStatus> status(const std::string& path) override;
  Result<FreeSpace> free_space(const std::string& path) override;
  Result<void> rename_new(const std::string& from, const std::string& to) override;
  Result<void> exchange(const std::string& a, const std::string& b) override;
  Result<void> copy_permissions(const std::string& from, const std::string& path) override;
  Result<void> sync_folder(const std::string& folder) override;
  Result<void> sync_file(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override;
  Result<void> remove_all(const std::string& path) override;

 private:
  using NodePointer = std::shared_ptr<MemoryNode>;  // shared by the tree and by open files

  struct Place {
    NodePointer folder;
    std::string name;
  };

  Result<NodePointer> walk(NodePointer start, const std::string& path, bool may_climb, bool follow_last) const;
  Result<NodePointer> find(const std::string& path, bool follow_last) const;
  Result<Place> place_of(const std::string& path) const;
  Result<Place> free_place_of(const std::string& path) const;
  NodePointer make_folders(const std::string& path);
  void put(const std::string& path, NodePointer node);

  mutable std::mutex mutex_;  // guards the tree and what is below; each file's content has its own
  NodePointer root_;
  std::uint64_t last_number_ = 0;
  std::vector<std::pair<std::string, FreeSpace>> free_spaces_;  // by folder
};

}  // namespace tenplex
