// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ZipLayout: the bytes of a torch.save archive around data that somebody else writes.
//
//   part 0 literal   data.pkl, .format_version, …, local header of the first data entry
//   part 1 data      entry data/0, filled by the caller
//   part 2 literal   descriptor of data/0, local header of data/1
//   …
//   part 2n literal  descriptor of the last data, version, .data/serialization_id, central directory
//
// Even parts are literal, odd ones are data; empty data entries have no part of their own. Entry data start at
// multiples of 64 bytes from the start of the archive. Literal parts are made when asked for.
//
// Value type. Threads: const calls are safe together. Source: docs/formats/torch.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/formats/torch/zip_record.h"

namespace tenplex {

class ZipLayout {
 public:
  /// `folder` is the archive's top folder: the file's stem, or "archive".
  explicit ZipLayout(std::string_view folder) : folder_(folder) {}

  /// data.pkl and the entries that torch puts behind it; then "tenplex.json" with `side`, unless that is empty.
  void begin(std::string pickle, std::string side = "");
  /// Adds "data/<number>", numbers counted from 0.
  void add_data(std::int64_t size_bytes);
  /// version, serialization id and directory. Nothing may be added after it.
  void close();

  std::int64_t size_bytes() const { return size_bytes_; }
  std::size_t part_count() const { return 2 * data_parts_.size() + 1; }
  /// Requires: close() was called.
  std::int64_t part_size(std::size_t part) const;
  /// Number of the data entry in an odd part.
  std::size_t data_number(std::size_t part) const { return data_parts_[part / 2] - first_data_; }

  /// Gives the bytes of data.pkl back; literal() needs them for part 0 from then on.
  std::string take_pickle() { return std::move(entries_.front().bytes); }

  /// Bytes of even part `part`. `data_crcs[i]` is the CRC-32 of the data in part 2i + 1, for all parts before this one;
  /// for parts but the last one it may also hold just the CRC of the data directly before.
  std::string literal(std::size_t part, std::span<const std::uint32_t> data_crcs) const;
  /// The same of part 0 around `pickle`, equal to that of begin(), without a copy of it where it has room to grow.
  std::string first_literal(std::string pickle) const;

 private:
  struct Entry : ZipItem {
    std::string bytes;  // empty for data
    std::uint32_t crc32 = 0;
  };
  void add(std::string_view name, std::string bytes);
  std::int64_t data_begin(std::size_t entry) const;
  std::int64_t data_end(std::size_t entry) const;
  void put_entries(std::string& out, std::size_t entry, std::size_t data,
                   std::span<const std::uint32_t> data_crcs) const;
  void put_directory(std::string& out, std::span<const std::uint32_t> data_crcs, std::uint32_t id_crc) const;
  std::string serialization_id(std::span<const std::uint32_t> data_crcs) const;

  std::string folder_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> data_parts_;  // entries that are non-empty data
  std::size_t first_data_ = 0;
  std::uint64_t names_ = 0;      // hash of all names but the id's
  std::int64_t size_bytes_ = 0;  // while adding: where the next entry starts
};

}  // namespace tenplex
