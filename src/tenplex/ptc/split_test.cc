// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/split.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

std::vector<std::int64_t> lengths(const Split& split, std::int64_t extent, std::int64_t parts) {
  std::vector<std::int64_t> result;
  std::int64_t next = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const Range range = part_range(split, extent, parts, part);
    EXPECT_EQ(range.begin, next) << "part " << part;
    next += range.length;
    result.push_back(range.length);
  }
  EXPECT_EQ(next, extent);
  return result;
}

using Lengths = std::vector<std::int64_t>;

TEST(Split, ByChunkGivesCeilingsAndLeavesTheLastOnesEmpty) {
  const Split chunk{Split::Kind::kChunk, {}};
  EXPECT_EQ(lengths(chunk, 6, 4), (Lengths{2, 2, 2, 0}));
  EXPECT_EQ(lengths(chunk, 5, 4), (Lengths{2, 2, 1, 0}));
  EXPECT_EQ(lengths(chunk, 8, 4), (Lengths{2, 2, 2, 2}));
  EXPECT_EQ(lengths(chunk, 1, 3), (Lengths{1, 0, 0}));
  EXPECT_EQ(lengths(chunk, 0, 2), (Lengths{0, 0}));
}

TEST(Split, BalancedDiffersByAtMostOne) {
  const Split balanced{Split::Kind::kBalanced, {}};
  EXPECT_EQ(lengths(balanced, 6, 4), (Lengths{2, 2, 1, 1}));
  EXPECT_EQ(lengths(balanced, 2, 3), (Lengths{1, 1, 0}));
}

TEST(Split, EvenRefusesARemainder) {
  const Split even{Split::Kind::kEven, {}};
  EXPECT_TRUE(check_split(even, 8, 4));
  EXPECT_EQ(check_split(even, 6, 4).error().message(), "6 does not divide evenly into 4 parts");
}

TEST(Split, ByWidthsMustCoverExactly) {
  const Split widths{Split::Kind::kWidths, {3, 0, 2, 1}};
  EXPECT_TRUE(check_split(widths, 6, 4));
  EXPECT_EQ(lengths(widths, 6, 4), (Lengths{3, 0, 2, 1}));
  EXPECT_EQ(check_split(widths, 7, 4).error().message(), "widths [3, 0, 2, 1] add up to 6, expected 7");
  EXPECT_EQ(check_split(widths, 6, 3).error().message(), "expected 3 widths, one per part, found 4");
  EXPECT_FALSE(check_split({Split::Kind::kWidths, {7, -1}}, 6, 2));
  EXPECT_FALSE(check_split({Split::Kind::kWidths, {INT64_MAX, INT64_MAX}}, 6, 2));
}

TEST(Split, PartOfFindsTheRangeThatHoldsAnIndex) {
  for (const Split& split : {Split{Split::Kind::kChunk, {}}, Split{Split::Kind::kBalanced, {}},
                             Split{Split::Kind::kWidths, {0, 4, 0, 1, 2}}})
    for (std::int64_t index = 0; index < 7; ++index) {
      const Range range = part_range(split, 7, 5, part_of(split, 7, 5, index));
      EXPECT_TRUE(range.begin <= index && index < range.begin + range.length)
          << static_cast<int>(split.kind) << " " << index;
    }
}

TEST(Split, WorksWithTheLargestExtents) {
  const Split chunk{Split::Kind::kChunk, {}};
  EXPECT_EQ(part_range(chunk, INT64_MAX, 2, 1), (Range{std::int64_t{1} << 62, (std::int64_t{1} << 62) - 1}));
}

}  // namespace
}  // namespace tenplex
