// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ByteSource: random access to immutable bytes (a file; later an HTTP or S3 object).
//
// Resource. Threads: all calls are safe together.
#pragma once

#include <cstdint>
#include <string>

#include "tenplex/base/bytes.h"
#include "tenplex/base/result.h"

namespace tenplex {

/// Tells one state of a file from another, as far as its file system does: a write changes `modified_ns`, another file
/// in its place `inode`. Reading changes nothing of it, and neither do new names (hard links), owners and permissions,
/// as the time of the last change of the inode is left out.
struct FileStamp {
  std::uint64_t file_system = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  ///< since 1970

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Size in bytes when it was opened.
  virtual std::int64_t size() const = 0;

  /// Of the file when it was opened. Default, for parts of files and the like: of the size alone.
  virtual FileStamp stamp() const { return {.size_bytes = size()}; }

  /// Fills all of `buffer` from `offset`.
  /// Errors: out_of_range past the end, corrupt if the file became shorter since it was opened, io.
  virtual Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const = 0;

  /// For messages: the path or URL.
  virtual const std::string& name() const = 0;

 protected:
  ByteSource() = default;
};

/// Reads [offset, offset + size) into a string. Errors: as read_at; nothing is allocated when the range is outside.
Result<std::string> read_string(const ByteSource& source, std::int64_t offset, std::int64_t size);

}  // namespace tenplex
