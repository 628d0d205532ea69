// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Are two checkpoints the same logical state, whatever their formats and cuts? Compared bit by bit: −0.0 differs from
// 0.0, and NaNs differ when their payloads do. Streams both in bounded memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/executor.h"
#include "tenplex/base/progress.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex {

struct TensorDifference {
  enum class Kind : std::uint8_t { kOnlyInFirst, kOnlyInSecond, kShape, kDType, kValues };

  Kind kind = Kind::kValues;
  TensorInfo first;   ///< unset for kOnlyInSecond
  TensorInfo second;  ///< unset for kOnlyInFirst

  // kValues only; indexes count in row-major order.
  std::int64_t differing_elements = 0;
  Dims index;               ///< of the first element that differs
  std::string first_value;  ///< as text: "1.5", "nan (0x7fc1)", "(1, -2)"
  std::string second_value;
};

struct VerifyReport {
  std::int64_t tensors_compared = 0;
  std::int64_t elements_compared = 0;
  std::int64_t bytes_read = 0;                  ///< of both
  std::vector<TensorDifference> differences;    ///< in the order of the first checkpoint; then those only in the second
  bool objects_compared = false;                ///< false if one of them holds no objects at all
  bool no_objects = false;                      ///< neither does
  std::vector<std::string> object_differences;  ///< one line each

  bool equal() const { return differences.empty() && object_differences.empty(); }
};

struct VerifyOptions {
  std::int64_t max_memory_bytes = std::int64_t{256} << 20;  ///< at least kMinMemoryBytes (reshard.h)
  bool cast = false;  ///< convert the first one's elements where the dtypes differ, then compare
  /// As TargetNotes::not_compared.
  std::vector<std::string> not_compared = {};
};

/// Phase of `progress`: "verify". Errors: corrupt, io, cancelled: they could not be compared.
Result<VerifyReport> verify(const CheckpointReader& first, const CheckpointReader& second, const VerifyOptions& options,
                            Executor& executor, Progress& progress);

}  // namespace tenplex
