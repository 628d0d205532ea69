// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ZipArchive: the entries of a zip file whose contents are stored as they are, in a whole file or in a range of one.
//
//   [local header, name, extra │ data │ descriptor] … [central directory] [zip64 end, locator] [end]
//
// Names, sizes and CRCs come from the central directory; a local header is read only to learn where its data start,
// since torch leaves its sizes 0. open() proves that entries lie inside the archive, do not overlap, and have distinct,
// harmless names. Offsets are relative to the start of the archive.
//
// Value type; borrows the source. Threads: const calls are safe together. Source: PKWARE APPNOTE 6.3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/byte_source.h"

namespace tenplex {

struct ZipEntry {
  std::string name;                ///< with its folder: "archive/data/0"
  std::int64_t header_offset = 0;  ///< of the local header
  std::int64_t size_bytes = 0;     ///< as it lies in the archive
  bool compressed = false;         ///< then it cannot be read
  std::int64_t limit = 0;          ///< the entry ends before this offset
  std::uint32_t crc32 = 0;         ///< 0 may mean that the writer made none
};

class ZipArchive {
 public:
  /// Requires: `source` outlives the archive.
  /// Errors: corrupt, unsupported (encrypted or split archives), io.
  static Result<ZipArchive> open(const ByteSource& source, std::int64_t offset, std::int64_t size);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Index of the entry of that name. Cost: O(log entries).
  std::optional<std::size_t> find(std::string_view name) const;

  /// Offset in the source (not the archive) of the entry's first byte; all its bytes lie inside the archive.
  /// Errors: corrupt if the local header is not what the directory says, unsupported if it is compressed, io.
  Result<std::int64_t> data_offset(std::size_t entry) const;

  /// All bytes of an entry, held against its CRC unless that is 0. Errors: corrupt, io, resource_exhausted if the entry
  /// is larger than `max_bytes`.
  Result<std::string> read(std::size_t entry, std::int64_t max_bytes) const;

 private:
  ZipArchive(const ByteSource& source, std::int64_t offset, std::int64_t size)
      : source_(&source), offset_(offset), size_(size) {}

  struct Directory {
    std::int64_t offset = 0;
    std::int64_t size = 0;
    std::int64_t entries = 0;
  };
  Result<Directory> find_directory() const;
  Result<void> read_zip64_end(std::int64_t end_offset, Directory* directory) const;
  Result<void> read_directory(const Directory& directory);
  Result<void> check_entries(std::int64_t data_end);
  Result<std::string> bytes(std::int64_t offset, std::int64_t size) const;

  const ByteSource* source_;
  std::int64_t offset_;
  std::int64_t size_;
  std::vector<ZipEntry> entries_;
  std::vector<std::uint32_t> by_name_;  // entry indexes sorted by name
};

}  // namespace tenplex
