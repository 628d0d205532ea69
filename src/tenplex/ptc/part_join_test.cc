// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/part_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kHuge = std::int64_t{1} << 61;

TEST(PartJoin, DealsPartsOutOverBlocks) {
  // q0 q1 q2 q3 | k0 k1 | v0 v1  ─►  q0 q1 k0 v0  q2 q3 k1 v1
  const std::vector<std::int64_t> extents = {4, 2, 2};
  const PartJoin apart = PartJoin::apart(extents);
  const PartJoin joined = PartJoin::joined(extents, 2).value();
  EXPECT_THAT(PartJoin::runs(apart, joined, 0), ElementsAre(PartRun{0, 0, 2}, PartRun{2, 4, 2}));
  EXPECT_THAT(PartJoin::runs(apart, joined, 1), ElementsAre(PartRun{0, 2, 1}, PartRun{1, 6, 1}));
  EXPECT_THAT(PartJoin::runs(apart, joined, 2), ElementsAre(PartRun{0, 3, 1}, PartRun{1, 7, 1}));
  EXPECT_THAT(PartJoin::runs(joined, apart, 1), ElementsAre(PartRun{2, 0, 1}, PartRun{6, 1, 1}));
}

TEST(PartJoin, GoesFromBlocksToOtherBlocks) {
  // 2 blocks  a0 a1 a2 b0 b1 b2  a3 a4 a5 b3 b4 b5      3 blocks  a0 a1 b0 b1  a2 a3 b2 b3  a4 a5 b4 b5
  const std::vector<std::int64_t> extents = {6, 6};
  const PartJoin two = PartJoin::joined(extents, 2).value();
  const PartJoin three = PartJoin::joined(extents, 3).value();
  EXPECT_THAT(PartJoin::runs(two, three, 0),
              ElementsAre(PartRun{0, 0, 2}, PartRun{2, 4, 1}, PartRun{6, 5, 1}, PartRun{7, 8, 2}));
  EXPECT_THAT(PartJoin::runs(two, three, 1),
              ElementsAre(PartRun{3, 2, 2}, PartRun{5, 6, 1}, PartRun{9, 7, 1}, PartRun{10, 10, 2}));
  EXPECT_FALSE(two == three);
}

TEST(PartJoin, HasNoRunsOfAPartWithoutElements) {
  const std::vector<std::int64_t> extents = {0, 2};
  EXPECT_THAT(PartJoin::runs(PartJoin::apart(extents), PartJoin::joined(extents, 2).value(), 0), ElementsAre());
}

TEST(PartJoin, RefusesBlocksThatDoNotDivide) {
  EXPECT_EQ(PartJoin::joined(std::vector<std::int64_t>{4, 2}, 4).error().message(),
            "parts of [4, 2] cannot be dealt out over 4 blocks: 4 does not divide 2");
}

TEST(PartExtents, FollowTheWidths) {
  EXPECT_THAT(part_extents(16, std::vector<std::int64_t>{4, 2, 2}).value(), ElementsAre(8, 4, 4));
  EXPECT_THAT(part_extents(8, std::vector<std::int64_t>{kHuge, kHuge}).value(), ElementsAre(4, 4));
  EXPECT_THAT(part_extents(2 * kHuge, std::vector<std::int64_t>{3, 5}).value(),
              ElementsAre(kHuge / 4 * 3, kHuge / 4 * 5));
  EXPECT_EQ(part_extents(9, std::vector<std::int64_t>{1, 1}).error().message(),
            "parts of widths [1, 1] do not divide an extent of 9");
}

TEST(InProportion, ComparesRatios) {
  EXPECT_TRUE(in_proportion(std::vector<std::int64_t>{8, 4, 4}, std::vector<std::int64_t>{4, 2, 2}));
  EXPECT_TRUE(in_proportion(std::vector<std::int64_t>{kHuge, kHuge / 2}, std::vector<std::int64_t>{2, 1}));
  EXPECT_FALSE(in_proportion(std::vector<std::int64_t>{8, 4, 4}, std::vector<std::int64_t>{4, 4, 4}));
  EXPECT_FALSE(in_proportion(std::vector<std::int64_t>{8, 0}, std::vector<std::int64_t>{4, 2}));
}

}  // namespace
}  // namespace tenplex
