// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/crc32c.h"

#include "tenplex/base/internal/crc32c_paths.h"
#include "tenplex/base/internal/crc_math.h"

namespace tenplex {
namespace internal {
namespace {

constexpr CrcTables kTables = make_crc_tables(kCrc32cPolynomial);

std::uint32_t byte_at(ByteSpan bytes, std::size_t index) { return std::to_integer<std::uint32_t>(bytes[index]); }

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t crc_before, ByteSpan bytes) {
  std::uint32_t state = ~crc_before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    std::uint32_t next = kTables[3][byte_at(bytes, 4)] ^ kTables[2][byte_at(bytes, 5)] ^ kTables[1][byte_at(bytes, 6)] ^
                         kTables[0][byte_at(bytes, 7)];
    for (std::size_t index = 0; index < 4; ++index)
      next ^= kTables[7 - index][((state >> (8 * index)) & 0xFF) ^ byte_at(bytes, index)];
    state = next;
  }
  for (const std::byte byte : bytes)
    state = (state >> 8) ^ kTables[0][(state & 0xFF) ^ std::to_integer<std::uint32_t>(byte)];
  return ~state;
}

}  // namespace internal

std::uint32_t crc32c(std::uint32_t crc_before, ByteSpan bytes) {
  static const bool kHasInstruction = internal::has_crc32c_sse42();
  return kHasInstruction ? internal::crc32c_sse42(crc_before, bytes) : internal::crc32c_portable(crc_before, bytes);
}

}  // namespace tenplex
