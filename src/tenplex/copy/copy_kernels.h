// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of strided_copy(), once per instruction set, for the dispatcher and for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tenplex/copy/strided_copy.h"

namespace tenplex::internal {

/// Rows of equal length at equal distances.
struct RowRun {
  std::byte* target;
  const std::byte* source;
  std::int64_t rows;
  std::int64_t row_bytes;
  std::int64_t target_step;  ///< bytes
  std::int64_t source_step;  ///< bytes
};

/// A small matrix to be transposed: element [r, c] of the source, with contiguous rows, becomes element [c, r] of the
/// target, with contiguous rows.
struct Tile {
  std::byte* target;
  const std::byte* source;
  std::int64_t rows;         ///< of the source
  std::int64_t columns;      ///< of the source
  std::int64_t target_step;  ///< bytes from column to column of the source
  std::int64_t source_step;  ///< bytes from row to row of the source
};

using RowFunction = void (*)(const RowRun& run);
using TileFunction = void (*)(const Tile& tile);

struct CopyKernels {
  const char* name;
  RowFunction copy_rows;    ///< rows of more than 64 bytes, through the caches
  RowFunction stream_rows;  ///< rows of more than 64 bytes, past the caches: for targets that do not fit in them
  TileFunction transpose_1_byte;
  TileFunction transpose_2_bytes;
  TileFunction transpose_4_bytes;
  TileFunction transpose_8_bytes;
  TileFunction transpose_16_bytes;
};

const CopyKernels& copy_kernels_portable();
/// Null if this processor or this build lacks the instructions.
const CopyKernels* copy_kernels_avx2();
/// The fastest ones that this processor has.
const CopyKernels& best_copy_kernels();

/// As tenplex::strided_copy(), with the given inner loops.
void strided_copy(const CopyKernels& kernels, std::byte* target, const std::byte* source, const CopyShape& shape);

}  // namespace tenplex::internal
