// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ItemLocator: where in a data file the elements of a chunk start. An item is an archive of torch.save or a safetensors
// blob. Most archives of one checkpoint differ in their data only, so an archive that was read in full is the pattern
// for the next ones of its element type and shape:
//
//   [head: pickle, byte order, … │ data │ descriptor: CRC │ rest]     same head, same length ─► same places
//
// A pattern saves the parsing, never a check: the head was held against its CRCs when the pattern was made, and the CRC
// of the data is given to the caller.
//
// Resource; borrows the files. Threads: calls are safe together.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/guarded.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/dcp/catalog.h"
#include "tenplex/formats/dcp/safetensors_payload.h"
#include "tenplex/formats/dcp/stored_item.h"
#include "tenplex/formats/file_pool.h"

namespace tenplex::dcp {

class ItemLocator {
 public:
  /// Requires: `pool` outlives the locator and gets no more files; `chunks` are all that will be asked for.
  ItemLocator(const FilePool& pool, const ChunkTable& chunks, std::int64_t max_metadata_bytes);
  ItemLocator(const ItemLocator&) = delete;
  ItemLocator& operator=(const ItemLocator&) = delete;

  /// `length` is that of the chunk's item, bytes. Errors: corrupt if the item does not hold the chunk, unsupported, io.
  Result<ChunkLocation> locate(const TensorInfo& tensor, const Chunk& chunk, std::int64_t length) const;

 private:
  static constexpr std::size_t kBlocks = 64;

  using Payload = std::shared_ptr<const SafetensorsPayload>;  // shared: kept by the cache and by calls in progress

  struct Pattern {
    std::string head;         // all in front of the data
    std::int64_t length = 0;  // of the archive
    Dims strides;             // elements

    /// The CRC of the data, or nothing if it is another archive: `start` is the head, `descriptor` follows the data.
    std::optional<std::uint32_t> crc(std::string_view start, std::string_view descriptor) const;
  };
  using PatternKey = std::pair<DType, Dims>;

  // Part of a file, read for the sake of many small items.
  struct Block {
    std::int32_t file = -1;
    std::int64_t begin = 0;
    std::string bytes;
  };

  const ByteSource& file(const ItemRange& range) const { return pool_[static_cast<std::size_t>(range.file)]; }
  Result<std::optional<ChunkLocation>> locate_known(const PatternKey& key, const ItemRange& range) const;
  Result<std::optional<std::uint32_t>> known_crc(const Pattern& pattern, std::int64_t bytes,
                                                 const ItemRange& range) const;
  Result<ChunkLocation> locate_archive(const PatternKey& key, const ItemRange& range) const;
  void learn(const PatternKey& key, const ItemRange& range, const StoredItem& item) const;
  Result<Payload> payload(const ItemRange& range) const;

  const FilePool& pool_;
  std::int64_t max_metadata_bytes_;
  std::vector<bool> has_small_items_;  // per file: mostly items of about kSmallItemBytes
  mutable std::array<Guarded<Block>, kBlocks> blocks_;
  mutable Guarded<std::map<std::pair<std::int32_t, std::int64_t>, Payload>> payloads_;
  mutable Guarded<std::map<PatternKey, std::shared_ptr<const Pattern>>> patterns_;  // shared with calls in progress
};

}  // namespace tenplex::dcp
