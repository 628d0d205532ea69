// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/box.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace tenplex {
namespace {

std::vector<std::string> texts(const std::vector<Box>& boxes) {
  std::vector<std::string> result;
  for (const Box& box : boxes) result.push_back(to_string(box));
  return result;
}

/// Flat indices, in a tensor of this shape, of the box's elements, in row-major order.
std::vector<std::int64_t> elements(const Box& box, const Dims& shape) {
  std::vector<std::int64_t> result;
  const Dims strides = row_major_strides(shape);
  for (std::int64_t flat = 0; flat < volume(box); ++flat) {
    std::int64_t rest = flat;
    std::int64_t index = 0;
    for (int dim = box.rank() - 1; dim >= 0; --dim) {
      index += (box.offset[dim] + rest % box.extent[dim]) * strides[dim];
      rest /= box.extent[dim];
    }
    result.push_back(index);
  }
  return result;
}

TEST(Box, IsPrintedAsHalfOpenRanges) {
  EXPECT_EQ(to_string(Box{{0, 128}, {4, 128}}), "[0:4, 128:256]");
  EXPECT_EQ(to_string(Box{}), "[]");
}

TEST(Box, OfRankZeroHoldsOneElement) {
  EXPECT_FALSE(Box{}.empty());
  EXPECT_EQ(volume(Box{}), 1);
  EXPECT_EQ(intersect(Box{}, Box{}), Box{});
  EXPECT_TRUE(contains(Box{}, Box{}));
  EXPECT_TRUE(subtract(Box{}, Box{}).empty());
}

TEST(Intersect, GivesTheCommonPartOrNothing) {
  EXPECT_EQ(intersect({{0, 0}, {4, 4}}, {{2, 3}, {5, 5}}), (Box{{2, 3}, {2, 1}}));
  EXPECT_EQ(intersect({{0, 0}, {4, 4}}, {{4, 0}, {1, 4}}), std::nullopt);  // they only touch
  EXPECT_EQ(intersect({{0, 0}, {4, 0}}, {{0, 0}, {4, 4}}), std::nullopt);  // empty
}

TEST(Contains, HoldsForEmptyBoxesAnywhere) {
  EXPECT_TRUE(contains({{0}, {4}}, {{1}, {3}}));
  EXPECT_FALSE(contains({{0}, {4}}, {{1}, {4}}));
  EXPECT_TRUE(contains({{0}, {4}}, {{9}, {0}}));
}

TEST(Subtract, PeelsSlabsInRowMajorOrder) {
  // The middle of a 4 x 4: the row before, left, right, the row after.
  EXPECT_EQ(texts(subtract({{0, 0}, {4, 4}}, {{1, 1}, {2, 2}})),
            (std::vector<std::string>{"[0:1, 0:4]", "[1:3, 0:1]", "[1:3, 3:4]", "[3:4, 0:4]"}));
  EXPECT_EQ(texts(subtract({{0, 0}, {4, 4}}, {{0, 2}, {9, 9}})), (std::vector<std::string>{"[0:4, 0:2]"}));
}

TEST(Subtract, LeavesADisjointBoxAsItIsAndNothingOfACoveredOne) {
  EXPECT_EQ(texts(subtract({{0}, {4}}, {{4}, {4}})), (std::vector<std::string>{"[0:4]"}));
  EXPECT_TRUE(subtract({{2}, {2}}, {{0}, {9}}).empty());
  EXPECT_TRUE(subtract({{2}, {0}}, {{0}, {9}}).empty());
  EXPECT_EQ(texts(subtract({{0}, {4}}, {{1}, {0}})), (std::vector<std::string>{"[0:4]"}));
}

TEST(Subtract, AgreesWithElementSetsOnRandomBoxes) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const int rank = static_cast<int>(below(4));
    const Dims shape = Dims::filled(rank, 6);
    Box a = Box::whole(shape);
    Box b = a;
    for (int dim = 0; dim < rank; ++dim)
      for (Box* box : {&a, &b}) {
        box->offset[dim] = below(6);
        box->extent[dim] = below(7 - box->offset[dim]);
      }
    std::set<std::int64_t> expected;
    for (const std::int64_t element : elements(a, shape)) expected.insert(element);
    for (const std::int64_t element : elements(b, shape)) expected.erase(element);
    std::set<std::int64_t> found;
    std::int64_t last_first = -1;
    const std::vector<Box> boxes = subtract(a, b);
    EXPECT_LE(boxes.size(), static_cast<std::size_t>(2 * rank));
    for (const Box& box : boxes) {
      const std::vector<std::int64_t> here = elements(box, shape);
      ASSERT_FALSE(here.empty());
      EXPECT_GT(here.front(), last_first);
      last_first = here.front();
      for (const std::int64_t element : here) EXPECT_TRUE(found.insert(element).second) << "twice";
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(BoxesOfFlatRange, AreAtMostTwoRankMinusOne) {
  // Elements 5..42 of [3, 4, 4]: the rest of a row, the rest of a plane, a plane, rows of the last, a part of a row.
  EXPECT_EQ(texts(boxes_of_flat_range({3, 4, 4}, 5, 43)),
            (std::vector<std::string>{"[0:1, 1:2, 1:4]", "[0:1, 2:4, 0:4]", "[1:2, 0:4, 0:4]", "[2:3, 0:2, 0:4]",
                                      "[2:3, 2:3, 0:3]"}));
  EXPECT_EQ(texts(boxes_of_flat_range({3, 4}, 1, 3)), (std::vector<std::string>{"[0:1, 1:3]"}));
  EXPECT_EQ(texts(boxes_of_flat_range({3, 4}, 0, 12)), (std::vector<std::string>{"[0:3, 0:4]"}));
  EXPECT_EQ(texts(boxes_of_flat_range({}, 0, 1)), (std::vector<std::string>{"[]"}));
}

TEST(BoxesOfFlatRange, AreNoneForAnEmptyRange) {
  EXPECT_TRUE(boxes_of_flat_range({3, 4}, 7, 7).empty());
  EXPECT_TRUE(boxes_of_flat_range({3, 0}, 0, 0).empty());
  EXPECT_TRUE(boxes_of_flat_range({}, 0, 0).empty());
}

TEST(BoxesOfFlatRange, HoldExactlyTheRangeInOrderForEveryRangeOfSmallShapes) {
  for (const Dims& shape : {Dims{7}, Dims{2, 3}, Dims{3, 1, 2}, Dims{2, 3, 2}, Dims{1, 4}, Dims{2, 2, 1, 3}, Dims{}}) {
    const std::int64_t total = volume(shape);
    for (std::int64_t begin = 0; begin <= total; ++begin)
      for (std::int64_t end = begin; end <= total; ++end) {
        const std::vector<Box> boxes = boxes_of_flat_range(shape, begin, end);
        EXPECT_LE(boxes.size(), static_cast<std::size_t>(std::max(1, 2 * shape.rank() - 1)));
        std::int64_t next = begin;
        for (const Box& box : boxes)
          for (const std::int64_t element : elements(box, shape)) EXPECT_EQ(element, next++);
        EXPECT_EQ(next, end) << to_string(shape) << ' ' << begin << ' ' << end;
      }
  }
}

TEST(BoxesOfFlatRange, WorkNearTheLargestShape) {
  const std::int64_t side = std::int64_t{1} << 31;
  EXPECT_EQ(texts(boxes_of_flat_range({side, side}, side - 1, side * side - 1)),
            (std::vector<std::string>{"[0:1, 2147483647:2147483648]", "[1:2147483647, 0:2147483648]",
                                      "[2147483647:2147483648, 0:2147483647]"}));
}

}  // namespace
}  // namespace tenplex
