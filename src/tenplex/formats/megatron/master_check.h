// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether float32 copies of parameters are the copies of these parameters: rounded, each must be the value that the
// model has. Pure. Threads: safe together.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "tenplex/ptc/dtype.h"

namespace tenplex::megatron {

/// True for element types that can be held against a float32 copy.
bool can_be_compared(DType dtype);

/// The first element whose float32 copy does not round to it; nothing if all do. Of two values next to each other where
/// the distance between values doubles, both count as nearest to what is between them.
/// Requires: can_be_compared(dtype), and as many little-endian elements in both.
std::optional<std::size_t> first_unlike(std::string_view masters, std::string_view values, DType dtype);

}  // namespace tenplex::megatron
