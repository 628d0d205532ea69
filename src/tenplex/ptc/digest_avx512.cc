// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/digest_lanes.h"

#if defined(__x86_64__)

#if !defined(__clang__)
// g++ 12 takes the deliberately undefined registers inside its own intrinsics for faults (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define TENPLEX_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))

namespace tenplex::internal {
namespace {

constexpr std::size_t kVectorLanes = 16;

/// The first lanes, as many as `mask` has bits, zero-extended to 32 bits; the others are zero and not read.
template <std::size_t kLaneBytes>
TENPLEX_TARGET inline __m512i load_lanes(const std::byte* lanes, __mmask16 mask) {
  if constexpr (kLaneBytes == 4) return _mm512_maskz_loadu_epi32(mask, lanes);
  if constexpr (kLaneBytes == 2) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, lanes));
  if constexpr (kLaneBytes == 1) return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, lanes));
}

struct Accumulator {
  __m512i even;  ///< 64-bit sums of lane · t_low, lanes 0, 2, 4, …
  __m512i odd;   ///< the same of lanes 1, 3, 5, …
  __m512i high;  ///< 32-bit sums of lane · t_high
};

TENPLEX_TARGET inline void add(Accumulator& sum, __m512i lanes, __m512i odd_lanes, const LaneWeights& weights,
                               std::size_t position) {
  const __m512i low = _mm512_loadu_si512(weights.low.data() + position);
  const __m512i low_of_odd = _mm512_loadu_si512(weights.low.data() + position + 1);
  const __m512i high = _mm512_loadu_si512(weights.high.data() + position);
  sum.even = _mm512_add_epi64(sum.even, _mm512_mul_epu32(lanes, low));
  sum.odd = _mm512_add_epi64(sum.odd, _mm512_mul_epu32(odd_lanes, low_of_odd));
  sum.high = _mm512_add_epi32(sum.high, _mm512_mullo_epi32(lanes, high));
}

TENPLEX_TARGET inline std::uint64_t total(const Accumulator& sum) {
  const __m512i high_of_odd = _mm512_set1_epi64(static_cast<long long>(0xFFFFFFFF00000000));
  const __m512i high = _mm512_add_epi64(_mm512_slli_epi64(sum.high, 32), _mm512_and_si512(sum.high, high_of_odd));
  const __m512i all = _mm512_add_epi64(_mm512_add_epi64(sum.even, sum.odd), high);
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(all));
}

template <std::size_t kLaneBytes>
TENPLEX_TARGET Digest block(const std::byte* lanes, std::size_t position, std::size_t count) {
  const __m512i zero = _mm512_setzero_si512();
  Accumulator first{zero, zero, zero};
  Accumulator second{zero, zero, zero};
  while (count != 0) {
    const std::size_t used = count < kVectorLanes ? count : kVectorLanes;
    const auto mask = static_cast<__mmask16>((1U << used) - 1);
    const __m512i vector = load_lanes<kLaneBytes>(lanes, mask);
    const __m512i odd = _mm512_srli_epi64(vector, 32);
    add(first, vector, odd, kLaneWeights[0], position);
    add(second, vector, odd, kLaneWeights[1], position);
    lanes += used * kLaneBytes;
    position += used;
    count -= used;
  }
  return {total(first), total(second)};
}

constexpr DigestPath kPath = {"avx512", block<1>, block<2>, block<4>};

}  // namespace

const DigestPath* digest_path_avx512() {
  const bool supported =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return supported ? &kPath : nullptr;
}

}  // namespace tenplex::internal

#else

namespace tenplex::internal {
const DigestPath* digest_path_avx512() { return nullptr; }
}  // namespace tenplex::internal

#endif
