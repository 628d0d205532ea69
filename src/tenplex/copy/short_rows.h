// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of at most 64 bytes: one or two moves of a fixed width each.
#pragma once

#include "tenplex/copy/copy_kernels.h"

namespace tenplex::internal {

inline constexpr std::int64_t kShortRowBytes = 64;

/// Requires: 0 < run.row_bytes <= kShortRowBytes.
void copy_short_rows(const RowRun& run);

}  // namespace tenplex::internal
