// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/short_rows.h"

#include <cstring>

namespace tenplex::internal {
namespace {

template <std::size_t kBytes>
void rows_of_exactly(const RowRun& run) {
  std::byte* target = run.target;
  const std::byte* source = run.source;
  for (std::int64_t row = 0; row < run.rows; ++row) {
    std::memcpy(target, source, kBytes);
    target += run.target_step;
    source += run.source_step;
  }
}

/// Rows of kBytes to 2 · kBytes: the first and the last kBytes, which may overlap.
template <std::size_t kBytes>
void rows_of_two_moves(const RowRun& run) {
  struct Part {
    std::byte bytes[kBytes];
  };
  const std::int64_t second = run.row_bytes - static_cast<std::int64_t>(kBytes);
  std::byte* target = run.target;
  const std::byte* source = run.source;
  for (std::int64_t row = 0; row < run.rows; ++row) {
    Part head;
    Part tail;
    std::memcpy(&head, source, kBytes);
    std::memcpy(&tail, source + second, kBytes);
    std::memcpy(target, &head, kBytes);
    std::memcpy(target + second, &tail, kBytes);
    target += run.target_step;
    source += run.source_step;
  }
}

}  // namespace

void copy_short_rows(const RowRun& run) {
  switch (run.row_bytes) {
    case 1:
      return rows_of_exactly<1>(run);
    case 2:
      return rows_of_exactly<2>(run);
    case 4:
      return rows_of_exactly<4>(run);
    case 8:
      return rows_of_exactly<8>(run);
    case 16:
      return rows_of_exactly<16>(run);
    case 32:
      return rows_of_exactly<32>(run);
    default:
      break;
  }
  if (run.row_bytes < 4) return rows_of_two_moves<2>(run);
  if (run.row_bytes < 8) return rows_of_two_moves<4>(run);
  if (run.row_bytes < 16) return rows_of_two_moves<8>(run);
  if (run.row_bytes < 32) return rows_of_two_moves<16>(run);
  rows_of_two_moves<32>(run);
}

}  // namespace tenplex::internal
