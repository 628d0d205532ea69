// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ChunkReader: brings boxes of a source's tensors into memory, wherever and however they are stored.
//
//   boxes wanted ─► where they lie in the files, sorted ─► neighbours joined ─► one read each
//      large and contiguous on both sides: read straight into place
//      anything else: read into a small scratch buffer that stays in the cache, then copied out with strides
//
// Only bytes that are wanted are read, but for gaps so small that a second call would cost more. The CRCs of stored
// items are checked on the way, and where an element is stored several times all copies are compared.
//
// Resource. Threads: any; every call brings its own scratch memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/reshard/item_ledger.h"
#include "tenplex/reshard/source_collection.h"
#include "tenplex/reshard/unit.h"

namespace tenplex {

/// A box of one stored shard, and where in memory it goes.
struct ReadRequest {
  TensorId tensor;
  std::int64_t shard = 0;
  Unit unit;
  Box box;                      ///< in units, inside the shard's box, not empty
  std::byte* memory = nullptr;  ///< of the box's first unit, in the source's dtype
  Dims strides;                 ///< of the memory, bytes
};

class ChunkReader {
 public:
  /// Memory for one call: `scratch` for reads, `compare` (may be empty if no shard has two copies) for second copies.
  struct Scratch {
    MutableByteSpan scratch;
    MutableByteSpan compare;
  };

  /// All outlive the reader; `collection` was made from reader.info().
  ChunkReader(const CheckpointReader& reader, const SourceCollection& collection, ItemLedger& ledger)
      : reader_(reader), collection_(collection), ledger_(ledger) {}

  /// Errors: corrupt for damaged items, chunks outside their files, and copies that differ; io; unsupported.
  Result<void> read(std::span<const ReadRequest> requests, const Scratch& scratch);

  /// Errors: corrupt, naming both files, if two shards hold different bytes for `box` (in units, inside both).
  Result<void> compare(TensorId tensor, const Unit& unit, const Box& box, std::int64_t first_shard,
                       std::int64_t second_shard, MutableByteSpan memory, const Scratch& scratch);

  const CheckpointInfo& info() const { return reader_.info(); }
  std::int64_t bytes_read() const { return bytes_read_; }

 private:
  class Pass;
  Result<void> compare_copies(const ReadRequest& request, const Scratch& scratch);

  const CheckpointReader& reader_;
  const SourceCollection& collection_;
  ItemLedger& ledger_;
  std::atomic<std::int64_t> bytes_read_ = 0;
};

}  // namespace tenplex
