// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/bucket_names.h"

#include <gtest/gtest.h>

namespace tenplex::megatron {
namespace {

TEST(BucketNames, ABucketSaysWhoseItIs) {
  const auto name = parse_bucket_name(
      "chained_1.optimizer.distributed.dp_group_idx_3.gbuf_idx_2.dtype_(torch.bfloat16, "
      "torch.float32).bucket_idx_11.exp_avg");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->of, (OptimizerGroup{1, 3}));
  EXPECT_EQ(name->buffer, 2);
  EXPECT_EQ(name->parameter_type, DType::kBFloat16);
  EXPECT_EQ(name->bucket, 11);
  EXPECT_EQ(name->slot, "exp_avg");
}

TEST(BucketNames, OtherNamesAreNone) {
  const char* front = "optimizer.distributed.dp_group_idx_0.";
  for (const char* rest : {"optimizer/shard_0_1", "gbuf_idx_0.dtype_(torch.float32).bucket_idx_0.param",
                           "gbuf_idx_0.dtype_(torch.float33, torch.float32).bucket_idx_0.param",
                           "gbuf_idx_00.dtype_(torch.float32, torch.float32).bucket_idx_0.param",
                           "gbuf_idx_-1.dtype_(torch.float32, torch.float32).bucket_idx_0.param",
                           "gbuf_idx_0.dtype_(torch.float32, torch.float32).bucket_idx_0.",
                           "gbuf_idx_0.dtype_(torch.float32, torch.float32).bucket_idx_x.param"}) {
    EXPECT_FALSE(parse_bucket_name(std::string(front) + rest)) << rest;
    EXPECT_TRUE(is_of_bucket(std::string(front) + rest)) << rest;
  }
  EXPECT_FALSE(is_of_bucket("optimizer.state.exp_avg.x"));
  EXPECT_FALSE(is_of_bucket("optimizer.distributed.dp_group_idx_"));
}

TEST(BucketNames, AnObjectHasAKey) {
  const auto object = parse_bucket_object("optimizer.distributed.dp_group_idx_1.per_bucket_numel/shard_0_1");
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->of, (OptimizerGroup{0, 1}));
  EXPECT_EQ(object->key, "per_bucket_numel");
}

}  // namespace
}  // namespace tenplex::megatron
