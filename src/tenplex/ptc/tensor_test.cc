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
  EXPECT_EQ(check_tensor({"w", DType::kFloat32, {huge, huge}}).error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(check_tensor({"w", DType::kFloat64, {huge, 2}}).error().code(), ErrorCode::kOutOfRange);
}

TEST(Tensor, OfFourBitElementsNeedsRowsOfWholeBytes) {
  EXPECT_TRUE(check_tensor({"w", DType::kFloat4E2M1FN, {3, 2}}));
  EXPECT_FALSE(check_tensor({"w", DType::kFloat4E2M1FN, {2, 3}}));
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
