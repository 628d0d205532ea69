// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/shard_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardName, IsKeyPlaceAndGrid) {
  const auto name = parse_shard_name("a/shard_b._extra_state/shard_2.10_4.12");
  ASSERT_TRUE(name) << name.error().to_string();
  EXPECT_EQ(name->key, "a/shard_b._extra_state");
  EXPECT_THAT(name->offset, ElementsAre(2, 10));
  EXPECT_THAT(name->shape, ElementsAre(4, 12));
}

TEST(ShardName, RefusesWhatIsNone) {
  for (const char* name : {"", "key", "key/shard_", "key/shard_0", "key/shard_0_", "key/shard_0.1_2", "key/shard_0_1_2",
                           "key/shard_-1_2", "key/shard_0._2.2", "key/shard_.0_2.2", "key/shard_00_2", "key/shard_0 _2",
                           "key/shard_0_99999999999999999999", "key/shard_2_2", "key/shard_0_0",
                           "k/shard_0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0_1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1"}) {
    const auto parsed = parse_shard_name(name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(parsed.error().to_string(), HasSubstr(name));
  }
}

TEST(ShardNames, AreWholeGrids) {
  EXPECT_TRUE(check_shard_names({}));
  EXPECT_TRUE(check_shard_names({"b/shard_1.0_2.1", "a/shard_0_1", "b/shard_0.0_2.1"}));
}

TEST(ShardNames, NameTheFirstThatIsMissing) {
  EXPECT_THAT(check_shard_names({"b/shard_0.0_2.2", "b/shard_1.0_2.2", "b/shard_1.1_2.2"}).error().to_string(),
              HasSubstr("'b/shard_0.1_2.2'"));
  EXPECT_THAT(check_shard_names({"x/shard_1_4", "x/shard_0_4", "x/shard_3_4"}).error().to_string(),
              HasSubstr("'x/shard_2_4'"));
  EXPECT_THAT(check_shard_names({"x/shard_0_9000000000000000000"}).error().to_string(),
              HasSubstr("'x/shard_1_9000000000000000000'"));
}

TEST(ShardNames, RefuseTwoGridsOfOneKey) {
  EXPECT_THAT(check_shard_names({"x/shard_0_1", "x/shard_0_2", "x/shard_1_2"}).error().to_string(),
              HasSubstr("'x/shard_0_2'"));
}

}  // namespace
}  // namespace tenplex::megatron
