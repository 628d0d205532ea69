// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/tensor.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(Tensor, IsAcceptedWithAnyNonNegativeShapeThatFits) {
  EXPECT_TRUE(check_tensor({"w", DType::kFloat32, {4, 0, 3}}));
  EXPECT_TRUE(check_tensor({"w", DType::kBool, {}}));
  EXPECT_TRUE(check_tensor({"w", DType::kUInt8, {1'000'000'000, 1'000'000'000}}));
}

TEST(Tensor, IsRefusedWithANegativeOrHugeShape) {
  const auto negative = check_tensor({"w", DType::kFloat32, {4, -1}});
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(negative.error().message(), "tensor 'w': shape [4, -1] has a negative extent");
  const std::int64_t huge = 1'000'000'000'000'000'000;
  const auto elements = check_tensor({"w", DType::kFloat32, {huge, huge}});
  EXPECT_EQ(elements.error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(elements.error().to_string(),
            "tensor 'w': shape [1000000000000000000, 1000000000000000000] has 2^63 elements or more");
  const auto bytes = check_tensor({"w", DType::kFloat32, {huge}});  // 4·10^18; 2^60 is 1.15·10^18
  EXPECT_EQ(bytes.error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(bytes.error().to_string(), "tensor 'w': float32 of shape [1000000000000000000] has 2^60 bytes or more");
}

TEST(Tensor, MayHaveEveryByteBelow2To60) {
  const std::int64_t limit = std::int64_t{1} << 60;
  EXPECT_TRUE(check_shape(DType::kUInt8, {limit - 1}));
  EXPECT_EQ(check_shape(DType::kUInt8, {limit}).error().code(), ErrorCode::kOutOfRange);
  EXPECT_TRUE(check_shape(DType::kFloat64, {limit / 8 - 1}));
  EXPECT_EQ(check_shape(DType::kFloat64, {limit / 8}).error().code(), ErrorCode::kOutOfRange);
  EXPECT_TRUE(check_shape(DType::kFloat4E2M1FN, {2 * limit - 2}));
  EXPECT_EQ(check_shape(DType::kFloat4E2M1FN, {2 * limit}).error().to_string(),
            "float4_e2m1fn of shape [2305843009213693952] has 2^60 bytes or more");
}

TEST(Tensor, OfFourBitElementsNeedsRowsOfWholeBytes) {
  EXPECT_TRUE(check_tensor({"w", DType::kFloat4E2M1FN, {3, 2}}));
  EXPECT_EQ(check_tensor({"w", DType::kFloat4E2M1FN, {2, 3}}).error().to_string(),
            "tensor 'w': rows of 3 float4_e2m1fn elements are not whole bytes");
  EXPECT_FALSE(check_tensor({"w", DType::kFloat4E2M1FN, {}}));
}

TEST(Tensor, HasTheBytesOfItsElements) {
  EXPECT_EQ(size_bytes(TensorInfo{"w", DType::kBFloat16, {3, 5}}), 30);
  EXPECT_EQ(size_bytes(TensorInfo{"w", DType::kFloat4E2M1FN, {3, 2}}), 3);
  EXPECT_EQ(size_bytes(TensorInfo{"w", DType::kFloat64, {}}), 8);
}

TEST(SubTensor, OfAWholeTensorIsOnePiece) {
  EXPECT_EQ(to_string(whole_tensor({2, 3})), "[2, 3] | [0:2, 0:3] at 0 step [3, 1]");
  EXPECT_EQ(to_string(whole_tensor({})), "[] | [] at 0 step []");
}

TEST(SubTensor, OfAnEmptyBoxHasNoPiece) { EXPECT_EQ(to_string(sub_tensor_of_box({{2, 0}, {0, 3}})), "[0, 3]"); }

}  // namespace
}  // namespace tenplex
