// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// One element of a tensor as text, for messages: the shortest decimal that reads back, with its bits where the decimal
// alone would not tell two values apart ("nan (0x7fc1)", "-0").
#pragma once

#include <cstdint>
#include <string>

#include "tenplex/base/bytes.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex {

/// Element number `index` of a packed array. Requires: it lies inside.
std::string element_text(DType dtype, ByteSpan array, std::int64_t index);

/// The bits of an element of at most 8 bytes, 4- and 6-bit types included. Requires: it lies inside.
std::uint64_t element_bits(DType dtype, ByteSpan array, std::int64_t index);

}  // namespace tenplex
