// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ReadPlan: for one tensor, which boxes of which stored shards go where in which arrays, and how the tensor is cut into
// windows.
//
// Made when the tensor's turn comes and dropped after it, so that a plan of millions of copies never is in memory at
// once. Immutable after make_*(). Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tenplex/plan/fill.h"
#include "tenplex/reshard/output_layout.h"
#include "tenplex/reshard/source_collection.h"
#include "tenplex/reshard/unit.h"
#include "tenplex/reshard/window.h"

namespace tenplex {

/// A box of a stored shard and its place in an array.
struct PlannedCopy {
  std::uint32_t array = 0;  ///< index into ReadPlan::arrays
  std::int64_t shard = 0;   ///< stored
  Box box;                  ///< units
  ByteView local;           ///< in the array, target's dtype
};

struct PlannedArray {
  const OutputArray* output = nullptr;
  std::uint32_t first_copy = 0;
  std::uint32_t copy_count = 0;
  bool has_padding = false;  ///< some of its bytes belong to no tensor: they become zero
  bool scattered = false;    ///< windows of the tensor hit it in tiny runs: it is filled in its own order
};

/// Two stored shards that share elements.
struct PlannedComparison {
  std::int64_t first_shard = 0;
  std::int64_t second_shard = 0;
  Box box;  ///< units
};

struct ReadPlan {
  TensorId tensor;
  Unit unit;
  DType source_dtype = DType::kUInt8;
  DType target_dtype = DType::kUInt8;
  std::int64_t bytes = 0;  ///< of the whole tensor, the larger of both dtypes
  std::vector<PlannedArray> arrays;
  std::vector<PlannedCopy> copies;  ///< of array 0, then of array 1, …
  std::vector<PlannedComparison> comparisons;
  std::optional<WindowGrid> grid;  ///< unset for an empty tensor

  bool casts() const { return source_dtype != target_dtype; }

  /// Replaces `*indexes` by those of the copies that may meet windows [first, last], ascending.
  void copies_of_windows(std::int64_t first, std::int64_t last, std::vector<std::uint32_t>* indexes) const;

  // For copies_of_windows(): copies by the first window that they meet, and the last window met by any up to there.
  std::vector<std::uint32_t> by_first_window;
  std::vector<std::int64_t> first_window;
  std::vector<std::int64_t> last_window_so_far;
};

struct WindowLimits {
  std::int64_t usual_bytes = 1 << 20;  ///< of a window
  std::int64_t most_bytes = 1 << 20;   ///< of a window where small ones would mean tiny reads or writes
};

/// For every output array of the tensor. Errors: invalid_argument if the source lacks elements, corrupt, io.
Result<ReadPlan> plan_tensor(const CheckpointReader& reader, const SourceCollection& source, const Collection& target,
                             const OutputLayout& layout, TensorId tensor, const WindowLimits& limits);

/// For one tensor of a shared storage: the copies into the storage. Windows are not used.
Result<ReadPlan> plan_view(const SourceCollection& source, const Collection& target, const OutputArray& storage,
                           const StorageView& view);

/// For reading whole windows: one array without output, the tensor itself, in the dtype `target`.
Result<ReadPlan> plan_scan(const CheckpointReader& reader, const SourceCollection& source, TensorId tensor,
                           DType target, const WindowLimits& limits);

}  // namespace tenplex
