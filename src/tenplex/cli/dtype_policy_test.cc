// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/dtype_policy.h"

#include <gtest/gtest.h>

namespace tenplex::cli {
namespace {

TensorList one_of_each() {
  return std::make_shared<const std::vector<TensorInfo>>(std::vector<TensorInfo>{{"w", DType::kFloat32, {2}},
                                                                                 {"h", DType::kFloat16, {2}},
                                                                                 {"step", DType::kInt64, {}},
                                                                                 {"q", DType::kFloat8E4M3FN, {2}},
                                                                                 {"c", DType::kComplex64, {2}},
                                                                                 {"scale", DType::kFloat8E8M0FNU, {2}},
                                                                                 {"q2", DType::kFloat8E4M3FN, {2}}});
}

TEST(DTypePolicy, ErrorKeepsEveryType) {
  const TensorList given = one_of_each();
  TensorList tensors = given;
  const auto left = apply_dtype_policy("error", &tensors);
  ASSERT_TRUE(left.has_value());
  EXPECT_TRUE(left->empty());
  EXPECT_EQ(tensors, given);  // the same list
}

TEST(DTypePolicy, CastConvertsOnlyWideFloatingPoint) {
  TensorList tensors = one_of_each();
  const auto left = apply_dtype_policy("cast:bf16", &tensors);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(*left, (DTypeCounts{{DType::kComplex64, 1}, {DType::kFloat8E4M3FN, 2}, {DType::kFloat8E8M0FNU, 1}}));
  EXPECT_EQ((*tensors)[0].dtype, DType::kBFloat16);
  EXPECT_EQ((*tensors)[1].dtype, DType::kBFloat16);
  EXPECT_EQ((*tensors)[2].dtype, DType::kInt64);
  EXPECT_EQ((*tensors)[3].dtype, DType::kFloat8E4M3FN);
  EXPECT_EQ((*tensors)[4].dtype, DType::kComplex64);
}

TEST(DTypePolicy, RefusesOtherWords) {
  TensorList tensors = one_of_each();
  for (const char* policy : {"", "cast", "cast:", "cast:int8", "bf16"})
    EXPECT_FALSE(apply_dtype_policy(policy, &tensors).has_value()) << policy;
}

}  // namespace
}  // namespace tenplex::cli
