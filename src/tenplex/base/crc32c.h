// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (Castagnoli): crc32c of "123456789" is 0xe3069283. Uses the processor's instruction where there is one.
#pragma once

#include <cstdint>

#include "tenplex/base/bytes.h"

namespace tenplex {

/// The CRC of what `crc_before` covers, followed by `bytes`. Start with 0, the CRC of nothing.
std::uint32_t crc32c(std::uint32_t crc_before, ByteSpan bytes);

}  // namespace tenplex
