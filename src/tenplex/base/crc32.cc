// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/crc32.h"

#include <libdeflate.h>

#include "tenplex/base/internal/crc_math.h"

namespace tenplex {

std::uint32_t crc32(std::uint32_t crc_before, ByteSpan bytes) {
  // libdeflate takes a null pointer as "give me the initial value".
  return bytes.empty() ? crc_before : libdeflate_crc32(crc_before, bytes.data(), bytes.size());
}

std::uint32_t crc32_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::int64_t length_b) {
  return internal::crc_combine(crc_a, crc_b, length_b, internal::kCrc32Polynomial);
}

}  // namespace tenplex
