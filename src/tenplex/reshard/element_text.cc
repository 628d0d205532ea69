// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/element_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

namespace tenplex {
namespace {

/// A binary floating-point type of at most 16 bits. Formats without infinities use their whole range for numbers.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  enum class Special { kIeee, kLastIsNan, kNegativeZeroIsNan, kNone } special;
  bool has_sign = true;
};

std::optional<SmallFloat> small_float(DType dtype) {
  using Special = SmallFloat::Special;
  switch (dtype) {
    case DType::kFloat16:
      return SmallFloat{5, 10, 15, Special::kIeee};
    case DType::kBFloat16:
      return SmallFloat{8, 7, 127, Special::kIeee};
    case DType::kFloat8E4M3FN:
      return SmallFloat{4, 3, 7, Special::kLastIsNan};
    case DType::kFloat8E5M2:
      return SmallFloat{5, 2, 15, Special::kIeee};
    case DType::kFloat8E4M3FNUZ:
      return SmallFloat{4, 3, 8, Special::kNegativeZeroIsNan};
    case DType::kFloat8E5M2FNUZ:
      return SmallFloat{5, 2, 16, Special::kNegativeZeroIsNan};
    case DType::kFloat6E2M3FN:
      return SmallFloat{2, 3, 1, Special::kNone};
    case DType::kFloat6E3M2FN:
      return SmallFloat{3, 2, 3, Special::kNone};
    case DType::kFloat4E2M1FN:
      return SmallFloat{2, 1, 1, Special::kNone};
    default:
      return std::nullopt;
  }
}

double decode(const SmallFloat& format, std::uint64_t bits) {
  const std::uint64_t mantissa = bits & ((1U << format.mantissa_bits) - 1);
  const auto exponent = static_cast<int>((bits >> format.mantissa_bits) & ((1U << format.exponent_bits) - 1));
  const bool negative = ((bits >> (format.mantissa_bits + format.exponent_bits)) & 1) != 0;
  const int last = (1 << format.exponent_bits) - 1;
  double value = 0;
  using Special = SmallFloat::Special;
  const bool is_nan =
      (format.special == Special::kLastIsNan && exponent == last && mantissa == (1U << format.mantissa_bits) - 1) ||
      (format.special == Special::kNegativeZeroIsNan && negative && exponent == 0 && mantissa == 0);
  if (format.special == Special::kIeee && exponent == last) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (is_nan) {
    value = NAN;
  } else {
    const auto significand = static_cast<double>(mantissa) / (1U << format.mantissa_bits);
    value =
        exponent == 0 ? std::ldexp(significand, 1 - format.bias) : std::ldexp(1 + significand, exponent - format.bias);
  }
  return negative ? -value : value;
}

std::string float_text(double value, std::uint64_t bits, int digits) {
  if (std::isnan(value)) return fmt::format("nan (0x{:0{}x})", bits, digits);
  return fmt::format("{}", value);
}

std::string float_text(float value, std::uint64_t bits, int digits) {
  if (std::isnan(value)) return fmt::format("nan (0x{:0{}x})", bits, digits);
  return fmt::format("{}", value);
}

std::string scalar_text(DType dtype, std::uint64_t bits) {
  if (const auto format = small_float(dtype)) {
    return float_text(static_cast<float>(decode(*format, bits)), bits, (bit_width(dtype) + 3) / 4);
  }
  switch (dtype) {
    case DType::kBool:
      return bits == 0 ? "false" : bits == 1 ? "true" : fmt::format("true (0x{:02x})", bits);
    case DType::kInt8:
      return fmt::format("{}", static_cast<int>(static_cast<std::int8_t>(bits)));
    case DType::kInt16:
      return fmt::format("{}", static_cast<std::int16_t>(bits));
    case DType::kInt32:
      return fmt::format("{}", static_cast<std::int32_t>(bits));
    case DType::kInt64:
      return fmt::format("{}", static_cast<std::int64_t>(bits));
    case DType::kFloat32:
      return float_text(std::bit_cast<float>(static_cast<std::uint32_t>(bits)), bits, 8);
    case DType::kFloat64:
      return float_text(std::bit_cast<double>(bits), bits, 16);
    case DType::kFloat8E8M0FNU:
      return bits == 0xff ? "nan (0xff)" : fmt::format("{}", std::ldexp(1.0, static_cast<int>(bits) - 127));
    default:
      return fmt::format("{}", bits);
  }
}

std::uint64_t load(ByteSpan array, std::int64_t offset, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, array.data() + offset, bytes);  // little-endian, as the hosts that this builds for
  return bits;
}

}  // namespace

std::uint64_t element_bits(DType dtype, ByteSpan array, std::int64_t index) {
  const int width = bit_width(dtype);
  if (width % 8 == 0) return load(array, index * (width / 8), static_cast<std::size_t>(width / 8));
  std::uint64_t bits = 0;
  for (int bit = 0; bit < width; ++bit) {
    const std::int64_t at = index * width + bit;
    const auto byte = static_cast<std::uint64_t>(array[static_cast<std::size_t>(at / 8)]);
    bits |= ((byte >> (at % 8)) & 1) << bit;
  }
  return bits;
}

std::string element_text(DType dtype, ByteSpan array, std::int64_t index) {
  const auto pair = [&](DType part) {
    return fmt::format("({}, {})", scalar_text(part, element_bits(part, array, 2 * index)),
                       scalar_text(part, element_bits(part, array, 2 * index + 1)));
  };
  switch (dtype) {
    case DType::kComplex32:
      return pair(DType::kFloat16);
    case DType::kComplex64:
      return pair(DType::kFloat32);
    case DType::kComplex128:
      return pair(DType::kFloat64);
    default:
      return scalar_text(dtype, element_bits(dtype, array, index));
  }
}

}  // namespace tenplex
