// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Scan: reads a tensor window by window, each window as one contiguous row-major array; for digests and comparisons.
//
// Resource. Threads: const calls are safe together.
#pragma once

#include <cstdint>

#include "tenplex/reshard/mover.h"

namespace tenplex {

/// How much a scan reads at a time where memory allows it: what a core's cache holds.
inline constexpr std::int64_t kScanWindowBytes = 1 << 20;

class Scan {
 public:
  /// In dtype `target`, converting where the stored one differs. Errors: those of plan_scan().
  static Result<Scan> plan(const CheckpointReader& checkpoint, const SourceCollection& collection, TensorId tensor,
                           DType target, const WindowLimits& limits);

  /// 0 for an empty tensor.
  std::int64_t window_count() const { return plan_.grid ? plan_.grid->count() : 0; }

  /// In units of the plan.
  Box window(std::int64_t index) const { return plan_.grid->window(index); }

  const ReadPlan& read_plan() const { return plan_; }

  /// Fills `memory` with a box (in units, not empty) as a contiguous array. Errors: the reader's.
  Result<void> read(const Box& box, std::byte* memory, ChunkReader& reader, const Slot& slot) const;

  /// Compares chunks that share elements. Errors: corrupt, naming both.
  Result<void> compare_overlaps(ChunkReader& reader, const Slot& slot) const;

 private:
  explicit Scan(ReadPlan plan) : plan_(std::move(plan)) {}

  ReadPlan plan_;
};

}  // namespace tenplex
