// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/digest_lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define TENPLEX_TARGET __attribute__((target("avx2")))

namespace tenplex::internal {
namespace {

constexpr std::size_t kVectorLanes = 8;

TENPLEX_TARGET inline __m256i load(const void* address) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(address));
}

/// Eight lanes, zero-extended to 32 bits.
template <std::size_t kLaneBytes>
TENPLEX_TARGET inline __m256i load_lanes(const std::byte* lanes) {
  if constexpr (kLaneBytes == 4) return load(lanes);
  if constexpr (kLaneBytes == 2) return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes)));
  if constexpr (kLaneBytes == 1) return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
}

struct Accumulator {
  __m256i even;  ///< 64-bit sums of lane · t_low, lanes 0, 2, 4, 6
  __m256i odd;   ///< the same of lanes 1, 3, 5, 7
  __m256i high;  ///< 32-bit sums of lane · t_high
};

TENPLEX_TARGET inline void add(Accumulator& sum, __m256i lanes, __m256i odd_lanes, const LaneWeights& weights,
                               std::size_t position) {
  sum.even = _mm256_add_epi64(sum.even, _mm256_mul_epu32(lanes, load(weights.low.data() + position)));
  sum.odd = _mm256_add_epi64(sum.odd, _mm256_mul_epu32(odd_lanes, load(weights.low.data() + position + 1)));
  sum.high = _mm256_add_epi32(sum.high, _mm256_mullo_epi32(lanes, load(weights.high.data() + position)));
}

TENPLEX_TARGET inline std::uint64_t total(const Accumulator& sum) {
  const __m256i high_of_odd = _mm256_set1_epi64x(static_cast<long long>(0xFFFFFFFF00000000));
  const __m256i high = _mm256_add_epi64(_mm256_slli_epi64(sum.high, 32), _mm256_and_si256(sum.high, high_of_odd));
  const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sum.even, sum.odd), high);
  const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(half)) + static_cast<std::uint64_t>(_mm_extract_epi64(half, 1));
}

template <std::size_t kLaneBytes>
TENPLEX_TARGET Digest block(const std::byte* lanes, std::size_t position, std::size_t count) {
  const __m256i zero = _mm256_setzero_si256();
  Accumulator first{zero, zero, zero};
  Accumulator second{zero, zero, zero};
  const auto add_vector = [&](__m256i vector) TENPLEX_TARGET {
    const __m256i odd = _mm256_srli_epi64(vector, 32);
    add(first, vector, odd, kLaneWeights[0], position);
    add(second, vector, odd, kLaneWeights[1], position);
  };
  for (; count >= kVectorLanes; count -= kVectorLanes) {
    add_vector(load_lanes<kLaneBytes>(lanes));
    lanes += kVectorLanes * kLaneBytes;
    position += kVectorLanes;
  }
  if (count != 0) {
    std::byte padded[kVectorLanes * kLaneBytes] = {};  // lanes of zero add nothing
    std::memcpy(padded, lanes, count * kLaneBytes);
    add_vector(load_lanes<kLaneBytes>(padded));
  }
  return {total(first), total(second)};
}

constexpr DigestPath kPath = {"avx2", block<1>, block<2>, block<4>};

}  // namespace

const DigestPath* digest_path_avx2() { return __builtin_cpu_supports("avx2") ? &kPath : nullptr; }

}  // namespace tenplex::internal

#else

namespace tenplex::internal {
const DigestPath* digest_path_avx2() { return nullptr; }
}  // namespace tenplex::internal

#endif
