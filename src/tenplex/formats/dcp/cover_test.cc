// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/cover.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenplex::dcp {
namespace {

std::optional<CoverFault> fault_of(const Dims& shape, const std::vector<std::int64_t>& dims) {
  const auto per_box = 2 * shape.size();
  return find_cover_fault(shape, BoxList(shape.rank(), per_box == 0 ? 1 : dims.size() / per_box, dims));
}

TEST(Cover, AcceptsAGrid) {
  // [4, 6] in four quarters of unequal size.
  EXPECT_FALSE(fault_of({4, 6}, {0, 0, 1, 2, /**/ 1, 0, 3, 2, /**/ 0, 2, 1, 4, /**/ 1, 2, 3, 4}));
}

TEST(Cover, AcceptsAPinwheelThatNoStraightCutDivides) {
  EXPECT_FALSE(fault_of({3, 3}, {0, 0, 1, 2, /**/ 0, 2, 2, 1, /**/ 2, 1, 1, 2, /**/ 1, 0, 2, 1, /**/ 1, 1, 1, 1}));
}

TEST(Cover, AcceptsAScalar) { EXPECT_FALSE(fault_of({}, {})); }

TEST(Cover, IgnoresEmptyBoxes) { EXPECT_FALSE(fault_of({2}, {0, 2, /**/ 2, 0, /**/ 1, 0})); }

TEST(Cover, NamesTheMissingRegion) {
  const auto fault = fault_of({8, 16}, {0, 0, 4, 16, /**/ 4, 0, 4, 8});
  ASSERT_TRUE(fault);
  EXPECT_TRUE(fault->missing);
  EXPECT_EQ(fault->box, (Box{{4, 8}, {4, 8}}));
}

TEST(Cover, NamesTheTwoBoxesThatOverlapThoughTheVolumesAddUp) {
  // Rows 0–1 twice, rows 2–3 never: the volumes still sum to the whole.
  const auto fault = fault_of({6}, {4, 2, /**/ 0, 2, /**/ 0, 2});
  ASSERT_TRUE(fault);
  EXPECT_FALSE(fault->missing);
  EXPECT_EQ(fault->box, (Box{{0}, {2}}));
  EXPECT_EQ(fault->first, 1U);
  EXPECT_EQ(fault->second, 2U);
}

TEST(Cover, FindsTheDoubleElementOfAScalar) {
  const auto fault = find_cover_fault({}, BoxList(0, 2, {}));
  ASSERT_TRUE(fault);
  EXPECT_FALSE(fault->missing);
}

TEST(Cover, FindsAnyTensorWithoutBoxesWhollyMissing) {
  const auto fault = find_cover_fault({3, 5}, BoxList(2, 0, {}));
  ASSERT_TRUE(fault);
  EXPECT_TRUE(fault->missing);
  EXPECT_EQ(fault->box, (Box{{0, 0}, {3, 5}}));
}

TEST(Cover, FindsOneHoleAmongAHundredThousandBoxes) {
  constexpr std::int64_t kCount = 100'000;
  constexpr std::int64_t kHole = 77'777;
  std::vector<std::int64_t> dims;
  for (std::int64_t i = 0; i < kCount; ++i) {
    if (i != kHole) dims.insert(dims.end(), {i, 0, 1, 3});
  }
  const auto fault = fault_of({kCount, 3}, dims);
  ASSERT_TRUE(fault);
  EXPECT_TRUE(fault->missing);
  EXPECT_EQ(fault->box, (Box{{kHole, 0}, {1, 3}}));
}

}  // namespace
}  // namespace tenplex::dcp
