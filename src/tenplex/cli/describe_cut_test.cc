// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/describe_cut.h"

#include <gtest/gtest.h>

namespace tenplex::cli {
namespace {

std::string describe(const std::vector<Box>& boxes) { return cut_text(cut_of(boxes)); }

TEST(Cut, NamesAWholeTensorAndItsCopies) {
  const Box whole{{0, 0}, {4, 4}};
  EXPECT_EQ(describe({whole}), "whole");
  EXPECT_EQ(describe({whole, whole, whole}), "whole, 3 copies");
  EXPECT_EQ(describe({Box{{}, {}}}), "whole");
  EXPECT_EQ(describe({}), "empty");
}

TEST(Cut, NamesTheDimensionsOfAGrid) {
  EXPECT_EQ(describe({{{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}}), "dim 0 in 2");
  EXPECT_EQ(describe({{{0, 0}, {2, 2}}, {{2, 0}, {2, 2}}, {{0, 2}, {2, 2}}, {{2, 2}, {2, 2}}}),
            "dim 0 in 2, dim 1 in 2");
  EXPECT_EQ(describe({{{0, 0}, {4, 1}}, {{0, 1}, {4, 3}}, {{0, 1}, {4, 3}}}), "dim 1 in 2, 2 copies");
}

TEST(Cut, CountsBoxesThatAreNoGrid) {
  EXPECT_EQ(describe({{{0, 0}, {2, 4}}, {{2, 0}, {2, 2}}, {{2, 2}, {2, 2}}}), "3 boxes");
}

}  // namespace
}  // namespace tenplex::cli
