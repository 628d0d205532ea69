// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>

#include "tenplex/copy/convert_kernels.h"

namespace tenplex::internal {
namespace {

// Each type: how its stored bits become a float32 and the reverse.

struct AsFloat32 {
  using Bits = std::uint32_t;
  static float widen(Bits bits) { return std::bit_cast<float>(bits); }
  static Bits narrow(float value) { return std::bit_cast<Bits>(value); }
};

struct AsFloat64 {
  using Bits = std::uint64_t;
  static float widen(Bits bits) { return static_cast<float>(std::bit_cast<double>(bits)); }
  static Bits narrow(float value) { return std::bit_cast<Bits>(static_cast<double>(value)); }
};

struct AsBFloat16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (value != value) return static_cast<Bits>((bits >> 16) | 0x40);  // quiet; rounding could make it an infinity
    return static_cast<Bits>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
};

struct AsFloat16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7FFFU;
    if (magnitude > 0x7C00) return std::bit_cast<float>(sign | 0x7FC00000 | magnitude << 13);  // NaN, made quiet
    if (magnitude == 0x7C00) return std::bit_cast<float>(sign | 0x7F800000);
    if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
    const float value = static_cast<float>(magnitude) * 0x1p-24F;  // subnormal or zero
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  static Bits narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000;
    const std::uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return static_cast<Bits>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
    if (magnitude >= 0x477FF000) return static_cast<Bits>(sign | 0x7C00);  // from 65520 on
    if (magnitude >= 0x38800000)                                           // normal
      return static_cast<Bits>(sign | (((magnitude + 0xFFF + ((magnitude >> 13) & 1)) >> 13) - (112U << 10)));
    // Subnormal: 0.5 has units of 2^-24 in its last place, as the result has.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<Bits>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000));
  }
};

template <typename Source, typename Target>
void convert_each(std::byte* target, const std::byte* source, std::int64_t count) {
  for (std::int64_t index = 0; index < count; ++index) {
    typename Source::Bits from;
    std::memcpy(&from, source, sizeof from);
    const typename Target::Bits to = Target::narrow(Source::widen(from));
    std::memcpy(target, &to, sizeof to);
    source += sizeof from;
    target += sizeof to;
  }
}

template <std::int64_t kBytes>
void keep(std::byte* target, const std::byte* source, std::int64_t count) {
  std::memcpy(target, source, static_cast<std::size_t>(count * kBytes));
}

constexpr ConvertKernels kKernels = {"portable",
                                     {{{keep<4>, convert_each<AsFloat32, AsFloat64>, convert_each<AsFloat32, AsFloat16>,
                                        convert_each<AsFloat32, AsBFloat16>},
                                       {convert_each<AsFloat64, AsFloat32>, keep<8>, convert_each<AsFloat64, AsFloat16>,
                                        convert_each<AsFloat64, AsBFloat16>},
                                       {convert_each<AsFloat16, AsFloat32>, convert_each<AsFloat16, AsFloat64>, keep<2>,
                                        convert_each<AsFloat16, AsBFloat16>},
                                       {convert_each<AsBFloat16, AsFloat32>, convert_each<AsBFloat16, AsFloat64>,
                                        convert_each<AsBFloat16, AsFloat16>, keep<2>}}}};

}  // namespace

const ConvertKernels& convert_kernels_portable() { return kKernels; }

}  // namespace tenplex::internal
