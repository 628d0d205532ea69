// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/dtype.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tenplex {
namespace {

TEST(DType, HasTheNumbersThatManifestsStore) {
  const std::vector<std::pair<DType, int>> persisted = {
      {DType::kBool, 0},          {DType::kUInt8, 1},        {DType::kInt64, 8},         {DType::kBFloat16, 10},
      {DType::kFloat32, 11},      {DType::kComplex128, 15},  {DType::kFloat8E4M3FN, 16}, {DType::kFloat8E8M0FNU, 20},
      {DType::kFloat6E2M3FN, 21}, {DType::kFloat4E2M1FN, 23}};
  for (const auto& [dtype, number] : persisted) EXPECT_EQ(static_cast<int>(dtype), number);
}

TEST(DType, KnowsTheWidthOfEveryType) {
  const std::vector<std::pair<std::string, int>> widths = {
      {"bool", 8},           {"uint8", 8},         {"int8", 8},          {"uint16", 16},         {"int16", 16},
      {"uint32", 32},        {"int32", 32},        {"uint64", 64},       {"int64", 64},          {"float16", 16},
      {"bfloat16", 16},      {"float32", 32},      {"float64", 64},      {"complex32", 32},      {"complex64", 64},
      {"complex128", 128},   {"float8_e4m3fn", 8}, {"float8_e5m2", 8},   {"float8_e4m3fnuz", 8}, {"float8_e5m2fnuz", 8},
      {"float8_e8m0fnu", 8}, {"float6_e2m3fn", 6}, {"float6_e3m2fn", 6}, {"float4_e2m1fn", 4}};
  ASSERT_EQ(widths.size(), static_cast<std::size_t>(kDTypeCount));
  for (const auto& [name, bits] : widths) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(to_string(*dtype), name);
    EXPECT_EQ(bit_width(*dtype), bits) << name;
    EXPECT_EQ(is_sub_byte(*dtype), bits < 8) << name;
  }
}

TEST(DType, RefusesOtherNames) {
  for (const char* name : {"", "float", "F32", "torch.float32", "float32 "}) EXPECT_FALSE(parse_dtype(name)) << name;
}

TEST(DType, PacksSubByteElementsIntoWholeBytesOnly) {
  EXPECT_EQ(packed_bytes(DType::kFloat4E2M1FN, 6), 3);
  EXPECT_EQ(packed_bytes(DType::kFloat4E2M1FN, 5), std::nullopt);
  EXPECT_EQ(packed_bytes(DType::kFloat6E2M3FN, 4), 3);
  EXPECT_EQ(packed_bytes(DType::kFloat6E2M3FN, 2), std::nullopt);
  EXPECT_EQ(packed_bytes(DType::kFloat64, 3), 24);
  EXPECT_EQ(packed_bytes(DType::kFloat32, 0), 0);
}

TEST(DType, RefusesByteCountsFrom2To60) {
  EXPECT_EQ(packed_bytes(DType::kFloat64, (std::int64_t{1} << 57) - 1), (std::int64_t{1} << 60) - 8);
  EXPECT_EQ(packed_bytes(DType::kFloat64, std::int64_t{1} << 57), std::nullopt);
  EXPECT_EQ(packed_bytes(DType::kFloat64, std::int64_t{1} << 60), std::nullopt);
  EXPECT_EQ(packed_bytes(DType::kUInt8, std::numeric_limits<std::int64_t>::max()), std::nullopt);
}

}  // namespace
}  // namespace tenplex
