// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Compares two strided arrays bit by bit. Threads: any.
#pragma once

#include <cstddef>

#include "tenplex/copy/strided_copy.h"

namespace tenplex {

/// True if a[Σ i·target_strides] == b[Σ i·source_strides] for every i in the shape's extent.
bool strided_equal(const std::byte* a, const std::byte* b, const CopyShape& shape);

}  // namespace tenplex
