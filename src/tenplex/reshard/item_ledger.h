// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ItemLedger: checks the stored CRC-32 of the source's items (zip entries) while their bytes stream by.
//
// An item is read in windows, by several threads, possibly for several tensors; the ledger collects the CRCs of its
// parts and compares when the last one is there. Items that are never read in full stay unchecked and are counted.
//
// Resource. Threads: any; items are spread over many locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/reshard/crc_parts.h"

namespace tenplex {

class ItemLedger {
 public:
  explicit ItemLedger(const CheckpointReader& reader) : reader_(reader) {}

  /// `bytes` were read from `begin` of the file; the part that belongs to `item` counts.
  /// Errors: corrupt, naming file and tensor, when the item is complete and its CRC is another one.
  Result<void> add(std::int32_t file, const CheckedRange& item, std::int64_t begin, ByteSpan bytes, TensorId tensor);

  /// Reads what is missing of items that lack only a little. Adds the bytes to `*bytes_read`. Errors: corrupt, io.
  Result<void> complete_small_gaps(std::int64_t* bytes_read);

  std::int64_t checked() const { return checked_; }
  /// Items read in part only.
  std::int64_t unchecked() const;

 private:
  using Key = std::pair<std::int32_t, std::int64_t>;  // file, begin of the item
  struct Item {
    CheckedRange range;
    TensorId tensor;
    CrcParts parts;
  };
  struct Stripe {
    mutable std::mutex mutex;
    std::map<Key, Item> items;  // not complete yet
    std::set<Key> done;
  };

  Stripe& stripe_of(const Key& key);
  Result<void> check(std::int32_t file, const CheckedRange& item, std::uint32_t crc, TensorId tensor);

  const CheckpointReader& reader_;
  std::array<Stripe, 64> stripes_;
  std::atomic<std::int64_t> checked_ = 0;
};

}  // namespace tenplex
