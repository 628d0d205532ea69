// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mover: carries out read plans, one unit of work at a time.
//
//   windows   of one or many tensors: every array that they meet gets one run of bytes, put together in the slot's
//             window memory in file order and written with as few calls as possible
//   range     of one array, for arrays that windows would hit in tiny runs, and for storages that tensors share
//
// Resource. Threads: any; each call uses one slot.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenplex/reshard/chunk_reader.h"
#include "tenplex/reshard/output_files.h"
#include "tenplex/reshard/read_plan.h"
#include "tenplex/reshard/slots.h"

namespace tenplex {

/// One window of a tensor.
struct PlannedWindow {
  const ReadPlan* plan = nullptr;
  std::int64_t window = 0;
};

class Mover {
 public:
  /// Both outlive the mover.
  Mover(ChunkReader& reader, OutputFiles& output) : reader_(reader), output_(output) {}

  /// Reads and writes the windows; arrays marked as scattered are left out. Errors: the reader's and the output's.
  Result<void> move_windows(std::span<const PlannedWindow> windows, const Slot& slot);

  /// Fills bytes [begin, end) of an array: number `array` of each of the plans. Bytes that no copy covers become zero.
  /// Requires: end − begin <= slot.window.size(); a whole number of units of all the plans.
  Result<void> move_range(std::span<const ReadPlan> plans, std::size_t array, std::int64_t begin, std::int64_t end,
                          const Slot& slot);

  /// After move_range() with the same arguments: reads every plan again and compares it with what is in the slot, so
  /// that tensors which share bytes are known to agree. Requires: end − begin <= slot.window.size() / 2.
  /// Errors: corrupt, naming the tensor, if one does not.
  Result<void> compare_range(std::span<const ReadPlan> plans, std::size_t array, std::int64_t begin, std::int64_t end,
                             const Slot& slot);

 private:
  ChunkReader& reader_;
  OutputFiles& output_;
};

/// A planned copy's part on its way into memory.
struct PlannedRead {
  const ReadPlan* plan = nullptr;
  std::int64_t shard = 0;
  Box box;  ///< units
  std::byte* memory = nullptr;
  Dims strides;  ///< of the memory, bytes
};

/// Reads all of them, converting where the plan says so. Errors: the reader's.
Result<void> read_planned(ChunkReader& reader, std::span<const PlannedRead> reads, const Slot& slot);

}  // namespace tenplex
