// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// WatchedFileSystem: passes everything on to another file system and remembers the stamp of each file that is opened
// for reading. A file that has another stamp when it is opened again, or when check() looks, is an error: what was read
// of it may be from two files.
//
// A write within the resolution of the file system's clock (a few milliseconds) of the one before it is not seen, and
// neither is one whose author sets the time of the last modification back.
//
// Resource; the other one must outlive it. Threads: all calls are safe together.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/io/file_system.h"

namespace tenplex {

class WatchedFileSystem : public FileSystem {
 public:
  explicit WatchedFileSystem(FileSystem& base) : base_(base) {}

  /// Opens every file again that was opened so far. Errors: corrupt, naming the first that changed or is gone.
  Result<void> check();

  /// Errors: those of the other one; corrupt if the file changed since it was opened first.
  Result<std::unique_ptr<ByteSource>> open(const std::string& path) override;
  Result<std::unique_ptr<ByteSource>> open_below(const std::string& folder, const std::string& relative) override;

  Result<std::unique_ptr<ByteSink>> create(const std::string& path) override { return base_.create(path); }
  Result<void> make_folder(const std::string& path) override { return base_.make_folder(path); }
  Result<std::vector<FolderEntry>> list(const std::string& folder) override { return base_.list(folder); }
  Result<FileStatus> status(const std::string& path) override { return base_.status(path); }
  Result<FreeSpace> free_space(const std::string& path) override { return base_.free_space(path); }
  Result<void> rename_new(const std::string& from, const std::string& to) override {
    return base_.rename_new(from, to);
  }
  Result<void> exchange(const std::string& a, const std::string& b) override { return base_.exchange(a, b); }
  Result<void> copy_permissions(const std::string& from, const std::string& path) override {
    return base_.copy_permissions(from, path);
  }
  Result<void> sync_folder(const std::string& folder) override { return base_.sync_folder(folder); }
  Result<void> sync_file(const std::string& path) override { return base_.sync_file(path); }
  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override { return base_.try_lock(path); }
  Result<void> remove_all(const std::string& path) override { return base_.remove_all(path); }

 private:
  using Name = std::pair<std::string, std::string>;  // folder and name below it; "" and the path for open()

  Result<std::unique_ptr<ByteSource>> open_again(const Name& name);
  Result<std::unique_ptr<ByteSource>> remember(Name name);

  FileSystem& base_;
  std::mutex mutex_;
  std::map<Name, FileStamp> stamps_;  // guarded by mutex_
};

}  // namespace tenplex
