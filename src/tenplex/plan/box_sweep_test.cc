// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/box_sweep.h"

#include <gtest/gtest.h>

#include <random>

#include "tenplex/plan/cell_grid.h"

namespace tenplex {
namespace {

using Pair = std::pair<std::size_t, std::size_t>;

std::vector<Box> grid_of(std::int64_t rows, std::int64_t columns) {
  std::vector<Box> boxes;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) boxes.push_back(Box{{3 * row, 5 * column}, {3, 5}});
  return boxes;
}

std::optional<Pair> overlap_of(const std::vector<Box>& boxes) {
  std::vector<SweptBox> swept;
  for (const Box& box : boxes) swept.push_back({&box, false});
  return find_overlap(swept);
}

bool has_overlap_by_all_pairs(const std::vector<Box>& boxes) {
  for (std::size_t a = 0; a < boxes.size(); ++a)
    for (std::size_t b = a + 1; b < boxes.size(); ++b)
      if (intersect(boxes[a], boxes[b])) return true;
  return false;
}

TEST(FindOverlap, FindsTheOneBoxOfAGridThatReachesIntoItsNeighbour) {
  std::vector<Box> boxes = grid_of(10, 10);
  EXPECT_EQ(overlap_of(boxes), std::nullopt);
  boxes[44].extent[1] = 6;  // row 4, column 4 reaches into column 5
  EXPECT_EQ(overlap_of(boxes), Pair(44, 45));
}

TEST(FindOverlap, LetsBackdropsOverlapEachOtherButNothingElse) {
  std::vector<Box> boxes = grid_of(4, 4);
  boxes.push_back(Box{{0, 0}, {6, 5}});
  boxes.push_back(Box{{3, 0}, {6, 5}});
  std::vector<SweptBox> swept;
  for (std::size_t i = 0; i < boxes.size(); ++i) swept.push_back({&boxes[i], i < 4 || i >= 16 || i % 4 == 0});
  EXPECT_EQ(find_overlap(swept), std::nullopt);
  swept[4].backdrop = false;  // row 1, column 0, under both of the last two
  EXPECT_TRUE(find_overlap(swept).has_value());
}

TEST(FindOverlap, AgreesWithAllPairsOnRandomBoxes) {
  std::mt19937_64 random(7);
  int overlapping = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<Box> boxes = grid_of(4, 5);
    for (int moved = 0; moved < 2; ++moved) {
      Box& box = boxes[random() % boxes.size()];
      box.extent[0] = 1 + static_cast<std::int64_t>(random() % 4);
      box.offset[1] += static_cast<std::int64_t>(random() % 2);
      box.extent[1] = 1 + static_cast<std::int64_t>(random() % 5);
    }
    const bool expected = has_overlap_by_all_pairs(boxes);
    overlapping += expected ? 1 : 0;
    EXPECT_EQ(overlap_of(boxes).has_value(), expected);
  }
  EXPECT_GT(overlapping, 50);
  EXPECT_LT(overlapping, 450);
}

TEST(CellGrid, IsNotBuiltWhenTheBoxesAreNoGrid) {
  std::vector<Box> boxes;
  for (std::int64_t i = 0; i < 30; ++i) boxes.push_back(Box{{3 * i, 7 * i}, {2, 5}});  // a diagonal: 59 x 59 cells
  std::vector<const Box*> pointers;
  for (const Box& box : boxes) pointers.push_back(&box);
  EXPECT_FALSE(CellGrid::build(pointers, 16 * 30).has_value());
  EXPECT_TRUE(CellGrid::build(pointers, 59 * 59).has_value());
  EXPECT_EQ(overlap_of(boxes), std::nullopt);
}

}  // namespace
}  // namespace tenplex
