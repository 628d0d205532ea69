// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// RecordingFileSystem: passes everything on to another file system, writes down what changed it, and fails on request.
// For fault tests: crash_model.h replays the record with what a power cut would lose.
//
// Resource; the other one must outlive it. Threads: all calls are safe together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tenplex/io/file_system.h"

namespace tenplex {

/// One change, as it was asked for.
struct FileOperation {
  enum class Kind : unsigned char {
    kCreate,
    kWrite,   ///< `bytes` at `offset`
    kFinish,  ///< fsync and close
    kClose,   ///< close without fsync
    kMakeFolder,
    kRename,    ///< path → other
    kExchange,  ///< path ↔ other
    kSyncFolder,
    kSyncFile,
    kRemove,
  };
  Kind kind = Kind::kCreate;
  std::string path;
  std::string other;
  std::int64_t offset = 0;
  std::string bytes;
};

class RecordingFileSystem : public FileSystem {
 public:
  explicit RecordingFileSystem(FileSystem& base) : base_(base) {}

  /// The changes so far, in the order in which they were started.
  std::vector<FileOperation> operations() const;

  /// Calls so far, reads and look-ups included.
  std::int64_t call_count() const { return calls_; }

  /// Call number `index` (from 0) fails with `error_number` and changes nothing.
  void fail_call(std::int64_t index, int error_number);

  /// Only this many more bytes can be written; then writes fail as on a full disk, after writing what fits.
  void limit_written_bytes(std::int64_t bytes) { bytes_left_ = bytes; }

  std::int64_t bytes_read() const { return bytes_read_; }
  std::int64_t bytes_written() const { return bytes_written_; }

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
  friend class RecordingSource;
  friend class RecordingSink;
  Result<void> count_call(const std::string& path);
  void record(FileOperation operation);
  std::int64_t take_space(std::int64_t wanted);

  FileSystem& base_;
  mutable std::mutex mutex_;
  std::vector<FileOperation> operations_;  // guarded by mutex_
  std::atomic<std::int64_t> calls_ = 0;
  std::atomic<std::int64_t> failing_call_ = -1;
  std::atomic<int> error_number_ = 0;
  std::atomic<std::int64_t> bytes_left_ = INT64_MAX;
  std::atomic<std::int64_t> bytes_read_ = 0;
  std::atomic<std::int64_t> bytes_written_ = 0;
};

}  // namespace tenplex
