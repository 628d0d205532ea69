// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tenplex/copy/copy_kernels.h"

namespace tenplex::internal {
namespace {

void copy_rows(const RowRun& run) {
  for (std::int64_t row = 0; row < run.rows; ++row)
    std::memcpy(run.target + row * run.target_step, run.source + row * run.source_step,
                static_cast<std::size_t>(run.row_bytes));
}

template <std::int64_t kBytes>
void transpose(const Tile& tile) {
  for (std::int64_t row = 0; row < tile.rows; ++row)
    for (std::int64_t column = 0; column < tile.columns; ++column)
      std::memcpy(tile.target + column * tile.target_step + row * kBytes,
                  tile.source + row * tile.source_step + column * kBytes, kBytes);
}

constexpr CopyKernels kKernels = {"portable",   copy_rows,    copy_rows,    transpose<1>,
                                  transpose<2>, transpose<4>, transpose<8>, transpose<16>};

}  // namespace

const CopyKernels& copy_kernels_portable() { return kKernels; }

}  // namespace tenplex::internal
