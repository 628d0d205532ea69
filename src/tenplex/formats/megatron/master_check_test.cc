// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/master_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tenplex::megatron {
namespace {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

bool alike(float master, std::uint16_t stored, DType dtype) {
  return !first_unlike(bytes_of<float>({master}), bytes_of<std::uint16_t>({stored}), dtype);
}

TEST(MasterCheck, BFloat16IsTheNearestValue) {
  EXPECT_TRUE(alike(1.0F, 0x3f80, DType::kBFloat16));
  EXPECT_TRUE(alike(1.0F + 0x1p-8F, 0x3f80, DType::kBFloat16));  // half way: to even
  EXPECT_FALSE(alike(1.0F + 0x1.1p-8F, 0x3f80, DType::kBFloat16));
  EXPECT_TRUE(alike(1.0F + 0x1.1p-8F, 0x3f81, DType::kBFloat16));
  EXPECT_TRUE(alike(-2.5F, 0xc020, DType::kBFloat16));
  EXPECT_FALSE(alike(2.5F, 0xc020, DType::kBFloat16));
  EXPECT_TRUE(alike(0x1p-133F, 0x0001, DType::kBFloat16));  // the smallest one
  EXPECT_TRUE(alike(0x1p-140F, 0x0000, DType::kBFloat16));
  EXPECT_FALSE(alike(0x1p-130F, 0x0000, DType::kBFloat16));
}

TEST(MasterCheck, Float16IsTheNearestValue) {
  EXPECT_TRUE(alike(1.0F / 3, 0x3555, DType::kFloat16));
  EXPECT_FALSE(alike(1.0F / 3, 0x3556, DType::kFloat16));
  EXPECT_TRUE(alike(65504.0F, 0x7bff, DType::kFloat16));
  EXPECT_TRUE(alike(65520.0F, 0x7c00, DType::kFloat16));  // infinity
  EXPECT_FALSE(alike(65504.0F, 0x7c00, DType::kFloat16));
  EXPECT_TRUE(alike(0x1p-24F, 0x0001, DType::kFloat16));
}

TEST(MasterCheck, ValuesThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(alike(nan, 0x7fc0, DType::kBFloat16));
  EXPECT_FALSE(alike(1.0F, 0x7fc0, DType::kBFloat16));
  EXPECT_FALSE(alike(nan, 0x3f80, DType::kBFloat16));
  EXPECT_TRUE(alike(-std::numeric_limits<float>::infinity(), 0xff80, DType::kBFloat16));
  EXPECT_FALSE(alike(std::numeric_limits<float>::infinity(), 0xff80, DType::kBFloat16));
}

TEST(MasterCheck, TheFirstUnlikeElementIsNamed) {
  const std::string masters = bytes_of<float>({1, 2, 3});
  EXPECT_FALSE(first_unlike(masters, masters, DType::kFloat32));
  EXPECT_EQ(first_unlike(masters, bytes_of<float>({1, 2, -3}), DType::kFloat32), 2U);
  EXPECT_FALSE(can_be_compared(DType::kFloat8E4M3FN));
}

}  // namespace
}  // namespace tenplex::megatron
