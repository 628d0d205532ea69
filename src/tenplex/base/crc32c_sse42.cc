// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/check.h"
#include "tenplex/base/internal/crc32c_paths.h"
#include "tenplex/base/internal/crc_math.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define TENPLEX_TARGET __attribute__((target("sse4.2,pclmul")))

namespace tenplex::internal {
namespace {

std::uint64_t load64(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Multiplying a state by this and reducing with the crc32 instruction moves it over `length_bytes` zero bytes: the
/// reduction itself contributes x^32, and the product of two reflected words one more x.
constexpr std::uint32_t shift_constant(std::uint64_t length_bytes) {
  return gf2_power_of_x(length_bytes * 8 - 33, kCrc32cPolynomial);
}

TENPLEX_TARGET std::uint64_t shifted(std::uint64_t state, std::uint32_t constant) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(state)),
                                               _mm_cvtsi32_si128(static_cast<int>(constant)), 0);
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product)));
}

/// The crc32 instruction takes three cycles but starts one a cycle: three stripes keep it busy.
template <std::size_t kStripeBytes>
TENPLEX_TARGET std::uint64_t three_stripes(std::uint64_t state, const std::byte* bytes) {
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  for (std::size_t at = 0; at < kStripeBytes; at += 8) {
    state = _mm_crc32_u64(state, load64(bytes + at));
    second = _mm_crc32_u64(second, load64(bytes + kStripeBytes + at));
    third = _mm_crc32_u64(third, load64(bytes + 2 * kStripeBytes + at));
  }
  return shifted(state, shift_constant(2 * kStripeBytes)) ^ shifted(second, shift_constant(kStripeBytes)) ^ third;
}

template <std::size_t kStripeBytes>
TENPLEX_TARGET std::uint64_t whole_stripes(std::uint64_t state, ByteSpan& bytes) {
  for (; bytes.size() >= 3 * kStripeBytes; bytes = bytes.subspan(3 * kStripeBytes))
    state = three_stripes<kStripeBytes>(state, bytes.data());
  return state;
}

}  // namespace

bool has_crc32c_sse42() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

TENPLEX_TARGET std::uint32_t crc32c_sse42(std::uint32_t crc_before, ByteSpan bytes) {
  std::uint64_t state = ~crc_before;
  state = whole_stripes<4096>(state, bytes);
  state = whole_stripes<256>(state, bytes);
  state = whole_stripes<64>(state, bytes);
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) state = _mm_crc32_u64(state, load64(bytes.data()));
  auto state32 = static_cast<std::uint32_t>(state);
  for (const std::byte byte : bytes) state32 = _mm_crc32_u8(state32, std::to_integer<std::uint8_t>(byte));
  return ~state32;
}

}  // namespace tenplex::internal

#else

namespace tenplex::internal {

bool has_crc32c_sse42() { return false; }

std::uint32_t crc32c_sse42(std::uint32_t, ByteSpan) {
  TENPLEX_CHECK(has_crc32c_sse42());
  return 0;
}

}  // namespace tenplex::internal

#endif
