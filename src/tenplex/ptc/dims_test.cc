// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/dims.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenplex {
namespace {

TEST(Dims, HoldsUpToEightValuesInOrder) {
  Dims dims{3, 1, 4};
  dims.push_back(1);
  EXPECT_EQ(dims, (Dims{3, 1, 4, 1}));
  EXPECT_EQ(dims.rank(), 4);
  EXPECT_EQ(to_string(dims), "[3, 1, 4, 1]");
  EXPECT_EQ(to_string(Dims{}), "[]");
}

TEST(Dims, EqualityIgnoresWhatWasThereBefore) {
  Dims longer = Dims::filled(3, 7);
  Dims shorter = Dims::filled(2, 7);
  EXPECT_FALSE(longer == shorter);
  EXPECT_TRUE(shorter < longer);
  EXPECT_TRUE((Dims{1, 9}) < (Dims{2, 0}));
}

TEST(Dims, VolumeOfAScalarIsOne) {
  EXPECT_EQ(volume(Dims{}), 1);
  EXPECT_EQ(checked_volume(Dims{}), 1);
}

TEST(Dims, VolumeIsRefusedWhereItDoesNotFit) {
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_EQ(checked_volume({half, half}), std::nullopt);
  EXPECT_EQ(checked_volume({half, half >> 1, 1}), std::nullopt);
  EXPECT_EQ(checked_volume({half, half >> 2}), std::int64_t{1} << 62);
  EXPECT_EQ(checked_volume({std::numeric_limits<std::int64_t>::max()}), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(checked_volume({2, -1}), std::nullopt);
  EXPECT_EQ(checked_volume({0, -1}), std::nullopt);
}

TEST(Dims, AnEmptyExtentMakesTheVolumeZeroButDoesNotHideOverflow) {
  const std::int64_t half = std::int64_t{1} << 32;
  EXPECT_EQ(checked_volume({4, 0, 5}), 0);
  EXPECT_EQ(checked_volume({half, 0, half}), std::nullopt);
}

TEST(Dims, StridesAreRowMajor) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(row_major_strides({5}), (Dims{1}));
  EXPECT_EQ(row_major_strides({}), (Dims{}));
  EXPECT_EQ(row_major_strides({2, 0, 4}), (Dims{4, 4, 1}));
}

}  // namespace
}  // namespace tenplex
