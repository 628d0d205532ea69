// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/master_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tenplex::megatron {
namespace {

/// An element type of 16 bits: bits of the fraction, and the exponent of the smallest normal number.
struct HalfForm {
  int fraction_bits;
  int least_exponent;
};
constexpr HalfForm kFloat16Form = {10, -14};
constexpr HalfForm kBFloat16Form = {7, -126};

template <typename T>
T element_at(std::string_view bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

double value_of(std::uint16_t bits, const HalfForm& form) {
  const int exponent_bits = 15 - form.fraction_bits;
  const int fraction = bits & ((1 << form.fraction_bits) - 1);
  const int exponent = (bits >> form.fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  const int implied = exponent == 0 ? 0 : 1 << form.fraction_bits;
  return sign * std::ldexp(fraction + implied, std::max(exponent - 1, 0) + form.least_exponent - form.fraction_bits);
}

bool rounds_to(double master, double value, const HalfForm& form) {
  if (std::isnan(master) || std::isnan(value)) return std::isnan(master) && std::isnan(value);
  const int largest = 1 - form.least_exponent;
  const double limit = std::ldexp(2 - std::ldexp(1, -form.fraction_bits - 1), largest);  // what rounds to infinity
  if (std::isinf(value)) return std::signbit(master) == std::signbit(value) && std::abs(master) >= limit;
  int exponent = 0;
  static_cast<void>(std::frexp(value, &exponent));
  const int place = value == 0 ? form.least_exponent : std::max(exponent - 1, form.least_exponent);
  return std::abs(master - value) <= std::ldexp(1, place - form.fraction_bits - 1);
}

bool is_like(std::string_view masters, std::string_view values, DType dtype, std::size_t index) {
  if (dtype == DType::kFloat32)
    return element_at<std::uint32_t>(masters, index) == element_at<std::uint32_t>(values, index);
  const HalfForm& form = dtype == DType::kFloat16 ? kFloat16Form : kBFloat16Form;
  return rounds_to(element_at<float>(masters, index), value_of(element_at<std::uint16_t>(values, index), form), form);
}

}  // namespace

bool can_be_compared(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

std::optional<std::size_t> first_unlike(std::string_view masters, std::string_view values, DType dtype) {
  const std::size_t count = masters.size() / sizeof(float);
  for (std::size_t index = 0; index < count; ++index)
    if (!is_like(masters, values, dtype, index)) return index;
  return std::nullopt;
}

}  // namespace tenplex::megatron
