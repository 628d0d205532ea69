// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// FileSystem: every operation on files and folders goes through this interface, so that tests can count, fail and
// replay them. `local_file_system()` is the real one.
//
// Paths are absolute or relative to the working directory, '/'-separated. Names that come from inside a checkpoint are
// never joined by hand: use checked_join(), which refuses "..", absolute paths and NUL.
//
// Resource. Threads: all calls are safe together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/byte_sink.h"
#include "tenplex/io/byte_source.h"

namespace tenplex {

enum class FileKind : unsigned char { kFile, kFolder, kLink, kOther };

struct FileStatus {
  FileKind kind = FileKind::kFile;  ///< of the path itself; links are not followed
  std::int64_t size_bytes = 0;
  FileStamp stamp = {};  ///< of the path itself
};

struct FolderEntry {
  std::string name;
  FileStatus status;
};

/// What may still be stored in a file system; a part is absent where the file system does not say.
struct FreeSpace {
  std::uint64_t file_system = 0;  ///< equal for paths that share the space
  std::optional<std::int64_t> bytes;
  std::optional<std::int64_t> files;

  friend bool operator==(const FreeSpace&, const FreeSpace&) = default;
};

/// Held while a file or folder is being written; the kernel drops it when its process ends. Resource.
class FileLock {
 public:
  virtual ~FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 protected:
  FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  /// Opens for reading. Errors: not_found, io, invalid_argument if it is no regular file.
  virtual Result<std::unique_ptr<ByteSource>> open(const std::string& path) = 0;

  /// Opens `relative` below `folder`; every symbolic link on the way must stay inside `folder`.
  /// Errors: as open(); invalid_argument if the path leaves the folder.
  virtual Result<std::unique_ptr<ByteSource>> open_below(const std::string& folder, const std::string& relative) = 0;

  /// Creates a new file. Errors: already_exists, resource_exhausted, io.
  virtual Result<std::unique_ptr<ByteSink>> create(const std::string& path) = 0;

  /// Creates one folder (its parent must exist). Errors: already_exists, io.
  virtual Result<void> make_folder(const std::string& path) = 0;

  /// Entries sorted by name. Errors: not_found, io.
  virtual Result<std::vector<FolderEntry>> list(const std::string& folder) = 0;

  /// Errors: not_found, io.
  virtual Result<FileStatus> status(const std::string& path) = 0;

  /// Of the file system that holds `path`, which exists; links are followed. Errors: not_found, io.
  virtual Result<FreeSpace> free_space(const std::string& path) = 0;

  /// Atomic; refuses an existing target. Errors: already_exists, io.
  virtual Result<void> rename_new(const std::string& from, const std::string& to) = 0;

  /// Swaps two existing names atomically. Errors: unsupported where the file system cannot, io.
  virtual Result<void> exchange(const std::string& a, const std::string& b) = 0;

  /// Gives `path` the permission bits of `from`, or of what that leads to if it is a link; a folder stays open to its
  /// owner. Nothing happens where a link leads nowhere or the file system keeps no permissions. Errors: not_found, io.
  virtual Result<void> copy_permissions(const std::string& from, const std::string& path) = 0;

  /// Makes the folder's entries durable. Errors: io.
  virtual Result<void> sync_folder(const std::string& folder) = 0;

  /// Makes the content of an existing file durable, whoever wrote it. Errors: not_found, io.
  virtual Result<void> sync_file(const std::string& path) = 0;

  /// Takes the exclusive lock of an existing file or folder, or returns null if another holder has it. The lock stays
  /// with the object when it is renamed. Errors: not_found (also if the path was replaced meanwhile), io.
  virtual Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) = 0;

  /// Removes a file, or a folder with all that is in it; links are removed, not followed. Errors: io.
  virtual Result<void> remove_all(const std::string& path) = 0;

 protected:
  FileSystem() = default;
};

/// The machine's file system. The object is owned by the caller.
std::unique_ptr<FileSystem> local_file_system();

/// `folder` + "/" + `relative`. Errors: invalid_argument for an empty or absolute path, "..", "." or NUL.
Result<std::string> checked_join(std::string_view folder, std::string_view relative);

}  // namespace tenplex
