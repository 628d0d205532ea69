// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The implementations of crc32c() that a processor may offer, for the dispatcher and for tests.
#pragma once

#include <cstdint>

#include "tenplex/base/bytes.h"

namespace tenplex::internal {

std::uint32_t crc32c_portable(std::uint32_t crc_before, ByteSpan bytes);

/// True if this processor (and this build) can run crc32c_sse42().
bool has_crc32c_sse42();

/// Three interleaved streams of the crc32 instruction, joined by carry-less multiplication.
/// Requires: has_crc32c_sse42().
std::uint32_t crc32c_sse42(std::uint32_t crc_before, ByteSpan bytes);

}  // namespace tenplex::internal
