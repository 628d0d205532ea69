// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/convert_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TENPLEX_TARGET __attribute__((target("avx2,f16c")))

namespace tenplex::internal {
namespace {

constexpr std::int64_t kVectorElements = 8;

TENPLEX_TARGET inline __m128i load128(const std::byte* address) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(address));
}
TENPLEX_TARGET inline void store128(std::byte* address, __m128i value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(address), value);
}

// Each type: how eight of its elements become eight float32 and the reverse.

struct AsFloat32 {
  static constexpr std::int64_t kBytes = 4;
  TENPLEX_TARGET static __m256 load(const std::byte* from) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
  }
  TENPLEX_TARGET static void store(std::byte* to, __m256 values) {
    _mm256_storeu_ps(reinterpret_cast<float*>(to), values);
  }
};

struct AsFloat64 {
  static constexpr std::int64_t kBytes = 8;
  TENPLEX_TARGET static __m256 load(const std::byte* from) {
    const auto* doubles = reinterpret_cast<const double*>(from);
    return _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(doubles + 4)), _mm256_cvtpd_ps(_mm256_loadu_pd(doubles)));
  }
  TENPLEX_TARGET static void store(std::byte* to, __m256 values) {
    auto* doubles = reinterpret_cast<double*>(to);
    _mm256_storeu_pd(doubles, _mm256_cvtps_pd(_mm256_castps256_ps128(values)));
    _mm256_storeu_pd(doubles + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)));
  }
};

struct AsFloat16 {
  static constexpr std::int64_t kBytes = 2;
  TENPLEX_TARGET static __m256 load(const std::byte* from) { return _mm256_cvtph_ps(load128(from)); }
  TENPLEX_TARGET static void store(std::byte* to, __m256 values) {
    store128(to, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

struct AsBFloat16 {
  static constexpr std::int64_t kBytes = 2;
  TENPLEX_TARGET static __m256 load(const std::byte* from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(from)), 16));
  }
  TENPLEX_TARGET static void store(std::byte* to, __m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, quiet, is_nan);
    store128(to, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
};

template <Float kSource, Float kTarget, typename Source, typename Target>
TENPLEX_TARGET void convert_each(std::byte* target, const std::byte* source, std::int64_t count) {
  std::int64_t done = 0;
  for (; done + kVectorElements <= count; done += kVectorElements)
    Target::store(target + done * Target::kBytes, Source::load(source + done * Source::kBytes));
  convert_kernels_portable().function(kSource, kTarget)(target + done * Target::kBytes, source + done * Source::kBytes,
                                                        count - done);
}

template <Float kSource, typename Source>
constexpr std::array<ConvertFunction, 4> functions_from() {
  return {convert_each<kSource, Float::kFloat32, Source, AsFloat32>,
          convert_each<kSource, Float::kFloat64, Source, AsFloat64>,
          convert_each<kSource, Float::kFloat16, Source, AsFloat16>,
          convert_each<kSource, Float::kBFloat16, Source, AsBFloat16>};
}

/// What does not change its type is copied, NaNs and all.
ConvertKernels make_kernels() {
  ConvertKernels kernels = {
      "avx2",
      {functions_from<Float::kFloat32, AsFloat32>(), functions_from<Float::kFloat64, AsFloat64>(),
       functions_from<Float::kFloat16, AsFloat16>(), functions_from<Float::kBFloat16, AsBFloat16>()}};
  for (std::size_t type = 0; type < 4; ++type)
    kernels.functions[type][type] = convert_kernels_portable().functions[type][type];
  return kernels;
}

}  // namespace

const ConvertKernels* convert_kernels_avx2() {
  static const ConvertKernels kKernels = make_kernels();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &kKernels : nullptr;
}

}  // namespace tenplex::internal

#else

namespace tenplex::internal {
const ConvertKernels* convert_kernels_avx2() { return nullptr; }
}  // namespace tenplex::internal

#endif
