// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Expected values were made by PyTorch 2.13: torch.tensor(values, dtype=…).to(…).
#include "tenplex/copy/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tenplex/base/crc32.h"
#include "tenplex/copy/convert_kernels.h"

namespace tenplex {
namespace {

using Bytes = std::vector<std::byte>;
using internal::Float;

struct Known {
  std::uint64_t float64;
  std::uint32_t float32;
  std::uint16_t float16;
  std::uint16_t bfloat16;
};

// Zeros, thirds, the largest float16 and what rounds to it or beyond, ties, subnormals, overflow, infinities, and
// values that are rounded twice on the way from float64.
constexpr Known kKnown[] = {
    {0x0000000000000000, 0x00000000, 0x0000, 0x0000}, {0x8000000000000000, 0x80000000, 0x8000, 0x8000},
    {0x3ff0000000000000, 0x3f800000, 0x3c00, 0x3f80}, {0xbff0000000000000, 0xbf800000, 0xbc00, 0xbf80},
    {0x3fd5555555555555, 0x3eaaaaab, 0x3555, 0x3eab}, {0x40effc0000000000, 0x477fe000, 0x7bff, 0x4780},
    {0x40effde000000000, 0x477fef00, 0x7bff, 0x4780}, {0x40effdffae147ae1, 0x477feffd, 0x7bff, 0x4780},
    {0x40effe0000000000, 0x477ff000, 0x7c00, 0x4780}, {0x40f0000000000000, 0x47800000, 0x7c00, 0x4780},
    {0xc12e848000000000, 0xc9742400, 0xfc00, 0xc974}, {0x3f10000000000000, 0x38800000, 0x0400, 0x3880},
    {0x3f00000000000000, 0x38000000, 0x0200, 0x3800}, {0x3e70000000000000, 0x33800000, 0x0001, 0x3380},
    {0x3e60000000000000, 0x33000000, 0x0000, 0x3300}, {0x3e78000000000000, 0x33c00000, 0x0002, 0x33c0},
    {0x3e600068db8bac71, 0x33000347, 0x0001, 0x3300}, {0x3e50000000000000, 0x32800000, 0x0000, 0x3280},
    {0x3ff0020000000000, 0x3f801000, 0x3c00, 0x3f80}, {0x3ff0060000000000, 0x3f803000, 0x3c02, 0x3f80},
    {0x3ff0020100000000, 0x3f801008, 0x3c01, 0x3f80}, {0x3ff0100000000000, 0x3f808000, 0x3c04, 0x3f80},
    {0x3ff0300000000000, 0x3f818000, 0x3c0c, 0x3f82}, {0x3ff0100100000000, 0x3f808008, 0x3c04, 0x3f81},
    {0x3ff0080000000000, 0x3f804000, 0x3c02, 0x3f80}, {0x3ff0000010000000, 0x3f800000, 0x3c00, 0x3f80},
    {0x3ff0000030000000, 0x3f800002, 0x3c00, 0x3f80}, {0x3ff0000010001000, 0x3f800001, 0x3c00, 0x3f80},
    {0x3ff0020000001000, 0x3f801000, 0x3c00, 0x3f80}, {0x3ff0100000001000, 0x3f808000, 0x3c04, 0x3f80},
    {0x47eff933c78cdfad, 0x7f7fc99e, 0x7c00, 0x7f80}, {0x47efdfeca7a63a17, 0x7f7eff65, 0x7c00, 0x7f7f},
    {0x47efe120cdbd668c, 0x7f7f0906, 0x7c00, 0x7f7f}, {0x47effffff0000000, 0x7f800000, 0x7c00, 0x7f80},
    {0x47efffffe54daff8, 0x7f7fffff, 0x7c00, 0x7f80}, {0x7e37e43c8800759c, 0x7f800000, 0x7c00, 0x7f80},
    {0xfe37e43c8800759c, 0xff800000, 0xfc00, 0xff80}, {0x37a16c262777579c, 0x000116c2, 0x0000, 0x0001},
    {0x3696d601ad376ab9, 0x00000001, 0x0000, 0x0000}, {0x369ff868bf4d956a, 0x00000001, 0x0000, 0x0000},
    {0x368ff868bf4d956a, 0x00000000, 0x0000, 0x0000}, {0x01a56e1fc2f8f359, 0x00000000, 0x0000, 0x0000},
    {0x0000000000000001, 0x00000000, 0x0000, 0x0000}, {0x7ff0000000000000, 0x7f800000, 0x7c00, 0x7f80},
    {0xfff0000000000000, 0xff800000, 0xfc00, 0xff80}, {0x400921fb54442d18, 0x40490fdb, 0x4248, 0x4049},
    {0xc005bf0a8b145769, 0xc02df854, 0xc170, 0xc02e}, {0x376be03d0bf225c7, 0x00001be0, 0x0000, 0x0000},
    {0x37a007564d44d5b9, 0x00010075, 0x0000, 0x0001}, {0x40fe240c9fbe76c9, 0x47f12065, 0x7c00, 0x47f1},
};

std::vector<const internal::ConvertKernels*> convert_kernels() {
  std::vector<const internal::ConvertKernels*> kernels = {&internal::convert_kernels_portable()};
  if (const auto* avx2 = internal::convert_kernels_avx2()) kernels.push_back(avx2);
  return kernels;
}

TEST(Convert, SaysWhichInstructionSetsAreNotTested) {
  if (internal::convert_kernels_avx2() == nullptr) std::cout << "not tested: this processor has no AVX2 or no F16C\n";
  EXPECT_EQ(&internal::best_convert_kernels(), convert_kernels().back());
}

template <typename To, typename From>
std::vector<To> converted(const internal::ConvertKernels& kernels, Float source_type, Float target_type,
                          const std::vector<From>& source) {
  std::vector<To> target(source.size());
  kernels.function(source_type, target_type)(reinterpret_cast<std::byte*>(target.data()),
                                             reinterpret_cast<const std::byte*>(source.data()),
                                             static_cast<std::int64_t>(source.size()));
  return target;
}

template <typename T>
std::vector<T> column(T Known::* member) {
  std::vector<T> values;
  for (const Known& known : kKnown) values.push_back(known.*member);
  return values;
}

std::vector<std::uint16_t> all_16_bit_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  return patterns;
}

class ConvertOn : public testing::TestWithParam<const internal::ConvertKernels*> {
 protected:
  /// Converts all 16-bit patterns; NaNs must stay NaNs; returns the CRC-32 of the results of the others.
  template <typename To>
  static std::uint32_t crc_of_all(Float source_type, Float target_type, unsigned infinity, bool (*is_nan)(To)) {
    const auto sources = all_16_bit_patterns();
    const auto results = converted<To>(*GetParam(), source_type, target_type, sources);
    std::vector<To> numbers;
    for (std::size_t index = 0; index < sources.size(); ++index) {
      const bool source_is_nan = (sources[index] & 0x7FFFU) > infinity;
      EXPECT_EQ(is_nan(results[index]), source_is_nan) << sources[index];
      if (!source_is_nan) numbers.push_back(results[index]);
    }
    return crc32(0, std::as_bytes(std::span(numbers)));
  }
};

constexpr unsigned kFloat16Infinity = 0x7C00;
constexpr unsigned kBFloat16Infinity = 0x7F80;

bool is_nan_64(std::uint64_t bits) { return (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000; }
bool is_nan_32(std::uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }
bool is_nan_float16(std::uint16_t bits) { return (bits & 0x7FFFU) > kFloat16Infinity; }
bool is_nan_bfloat16(std::uint16_t bits) { return (bits & 0x7FFFU) > kBFloat16Infinity; }

TEST_P(ConvertOn, NarrowsAsTorchDoes) {
  const auto& kernels = *GetParam();
  const auto doubles = column(&Known::float64);
  const auto floats = column(&Known::float32);
  EXPECT_EQ(converted<std::uint32_t>(kernels, Float::kFloat64, Float::kFloat32, doubles), floats);
  EXPECT_EQ(converted<std::uint16_t>(kernels, Float::kFloat64, Float::kFloat16, doubles), column(&Known::float16));
  EXPECT_EQ(converted<std::uint16_t>(kernels, Float::kFloat64, Float::kBFloat16, doubles), column(&Known::bfloat16));
  EXPECT_EQ(converted<std::uint16_t>(kernels, Float::kFloat32, Float::kFloat16, floats), column(&Known::float16));
  EXPECT_EQ(converted<std::uint16_t>(kernels, Float::kFloat32, Float::kBFloat16, floats), column(&Known::bfloat16));
}

TEST_P(ConvertOn, ConvertsEvery16BitPatternAsTorchDoes) {
  EXPECT_EQ(crc_of_all(Float::kFloat16, Float::kFloat32, kFloat16Infinity, is_nan_32), 0x58a2254bU);
  EXPECT_EQ(crc_of_all(Float::kFloat16, Float::kFloat64, kFloat16Infinity, is_nan_64), 0xbb560c3dU);
  EXPECT_EQ(crc_of_all(Float::kFloat16, Float::kBFloat16, kFloat16Infinity, is_nan_bfloat16), 0xcd2624c0U);
  EXPECT_EQ(crc_of_all(Float::kBFloat16, Float::kFloat32, kBFloat16Infinity, is_nan_32), 0x1fad2086U);
  EXPECT_EQ(crc_of_all(Float::kBFloat16, Float::kFloat64, kBFloat16Infinity, is_nan_64), 0xabd2bee5U);
  EXPECT_EQ(crc_of_all(Float::kBFloat16, Float::kFloat16, kBFloat16Infinity, is_nan_float16), 0x09228818U);
}

TEST_P(ConvertOn, KeepsEveryNotANumber) {
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xff800001U, 0x7fffffffU, 0x7f80ffffU}) {
    const std::vector<std::uint32_t> source(17, bits);
    for (const auto half : converted<std::uint16_t>(*GetParam(), Float::kFloat32, Float::kFloat16, source))
      EXPECT_TRUE(is_nan_float16(half) && (half >> 15) == (bits >> 31)) << bits;
    for (const auto half : converted<std::uint16_t>(*GetParam(), Float::kFloat32, Float::kBFloat16, source))
      EXPECT_TRUE(is_nan_bfloat16(half) && (half >> 15) == (bits >> 31)) << bits;
    for (const auto wide : converted<std::uint64_t>(*GetParam(), Float::kFloat32, Float::kFloat64, source))
      EXPECT_TRUE(is_nan_64(wide)) << bits;
  }
  const std::vector<std::uint64_t> source(17, 0x7ff0000000000001);
  for (const auto narrow : converted<std::uint32_t>(*GetParam(), Float::kFloat64, Float::kFloat32, source))
    EXPECT_TRUE(is_nan_32(narrow));
}

TEST_P(ConvertOn, AgreesWithThePortablePathOnRandomBits) {
  std::mt19937_64 random(51);
  std::vector<std::uint64_t> source(5003);
  for (auto& bits : source) bits = random();
  for (std::size_t index = 0; index < source.size(); index += 2)  // half of them in the range of float16
    source[index] = std::bit_cast<std::uint64_t>(
        std::ldexp(static_cast<double>(source[index] >> 11) - 0x1p52, static_cast<int>(index % 45) - 82));
  for (const Float from : {Float::kFloat32, Float::kFloat64, Float::kFloat16, Float::kBFloat16})
    for (const Float to : {Float::kFloat32, Float::kFloat64, Float::kFloat16, Float::kBFloat16})
      EXPECT_EQ(converted<std::uint64_t>(*GetParam(), from, to, source),
                converted<std::uint64_t>(internal::convert_kernels_portable(), from, to, source));
}

INSTANTIATE_TEST_SUITE_P(Kernels, ConvertOn, testing::ValuesIn(convert_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

TEST(Convert, KnowsWhatItCanConvert) {
  EXPECT_TRUE(can_convert(DType::kFloat32, DType::kBFloat16));
  EXPECT_TRUE(can_convert(DType::kFloat16, DType::kFloat16));
  EXPECT_FALSE(can_convert(DType::kFloat32, DType::kInt32));
  EXPECT_FALSE(can_convert(DType::kFloat8E4M3FN, DType::kFloat32));
}

TEST(Convert, LeavesEqualTypesAlone) {
  const std::vector<std::uint32_t> source = {0x7f800001, 0x3f800000, 0x00000001};  // a signalling NaN too
  std::vector<std::uint32_t> target(3);
  strided_convert(DType::kFloat32, reinterpret_cast<std::byte*>(target.data()), DType::kFloat32,
                  reinterpret_cast<const std::byte*>(source.data()), {{3}, {4}, {4}});
  EXPECT_EQ(target, source);
}

/// Element by element, float32 to float64.
void naive(std::byte* target, const std::byte* source, const ConvertShape& shape) {
  for (std::int64_t flat = 0; flat < volume(shape.extent); ++flat) {
    std::int64_t left = flat;
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (int dim = shape.extent.rank() - 1; dim >= 0; --dim) {
      to += left % shape.extent[dim] * shape.target_strides[dim];
      from += left % shape.extent[dim] * shape.source_strides[dim];
      left /= shape.extent[dim];
    }
    float value = 0;
    std::memcpy(&value, source + from, sizeof value);
    const double wide = value;
    std::memcpy(target + to, &wide, sizeof wide);
  }
}

TEST(StridedConvert, AgreesWithTheDefinition) {
  std::vector<float> source(200'000);
  std::iota(source.begin(), source.end(), -1000.5F);
  const auto* from = reinterpret_cast<const std::byte*>(source.data());
  for (const auto& shape : {
           ConvertShape{{}, {}, {}},
           ConvertShape{{0}, {8}, {4}},
           ConvertShape{{1000}, {8}, {4}},
           ConvertShape{{7}, {24}, {12}},
           ConvertShape{{20, 300}, {300 * 8, 8}, {300 * 4, 4}},
           ConvertShape{{20, 300}, {320 * 8, 8}, {350 * 4, 4}},
           ConvertShape{{300, 200}, {200 * 8, 8}, {4, 300 * 4}},
           ConvertShape{{5, 3, 200}, {8, 40, 120}, {2400, 800, 4}},
           ConvertShape{{3, 500, 2}, {8000, 16, 8}, {4, 24, 12}},
           ConvertShape{{2, 1, 70}, {560, 3, 8}, {280, 5, 4}},
       }) {
    Bytes expected(600'000, std::byte{0xEE});
    Bytes found = expected;
    naive(expected.data(), from, shape);
    strided_convert(DType::kFloat64, found.data(), DType::kFloat32, from, shape);
    EXPECT_EQ(found, expected) << to_string(shape.extent);
  }
}

}  // namespace
}  // namespace tenplex
