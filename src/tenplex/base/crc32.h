// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// CRC-32 as in zip, gzip and Ethernet (IEEE 802.3): crc32 of "123456789" is 0xcbf43926.
#pragma once

#include <cstdint>

#include "tenplex/base/bytes.h"

namespace tenplex {

/// The CRC of what `crc_before` covers, followed by `bytes`. Start with 0, the CRC of nothing.
std::uint32_t crc32(std::uint32_t crc_before, ByteSpan bytes);

/// The CRC of a ++ b from the CRCs of a and b. Requires: 0 <= length_b < 2^60. Cost: O(log length_b).
std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::int64_t length_b);

}  // namespace tenplex
