// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/ptc/testing/tensor_infos.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

bool tiles(std::vector<Box> boxes, const Box& region) { return tile(boxes, region); }

TEST(Tile, AcceptsWhatFillsTheRegionOnce) {
  const Box region = Box::whole({4, 6});
  EXPECT_TRUE(tiles({region}, region));
  EXPECT_TRUE(tiles({{{2, 0}, {2, 6}}, {{0, 0}, {2, 2}}, {{0, 2}, {2, 4}}}, region));  // bands, one cut again
  EXPECT_TRUE(tiles({{{0, 3}, {4, 3}}, {{0, 0}, {4, 3}}, {{4, 0}, {0, 6}}}, region));  // one holds nothing
  EXPECT_TRUE(tiles({}, Box::whole({0, 6})));
  EXPECT_TRUE(tiles({Box{}}, Box{}));  // a scalar
}

TEST(Tile, RefusesGapsAndOverlaps) {
  const Box region = Box::whole({4, 6});
  EXPECT_FALSE(tiles({}, region));
  EXPECT_FALSE(tiles({region, region}, region));
  EXPECT_FALSE(tiles({{{0, 0}, {4, 5}}}, region));
  EXPECT_FALSE(tiles({{{0, 0}, {2, 6}}, {{3, 0}, {1, 6}}}, region));                    // a gap between
  EXPECT_FALSE(tiles({{{0, 0}, {2, 6}}, {{2, 0}, {3, 6}}}, region));                    // too far
  EXPECT_FALSE(tiles({{{0, 0}, {4, 4}}, {{0, 2}, {4, 4}}}, region));                    // overlap, volume too large
  EXPECT_FALSE(tiles({{{0, 0}, {2, 6}}, {{1, 0}, {2, 6}}}, region));                    // overlap, volume right
  EXPECT_FALSE(tiles({{{0, 0}, {2, 3}}, {{0, 3}, {2, 3}}, {{2, 0}, {2, 5}}}, region));  // a corner is missing
  EXPECT_FALSE(tiles({Box{}, Box{}}, Box{}));
}

TEST(Clip, CutsAPieceOnBothSides) {
  // Source rows 4..8 and columns 0..3, turned round, are rows 10..13 of a target with a new first axis.
  const MapPiece piece{TensorId(7), {{4, 0}, {4, 3}}, {{2, 10, 0}, {1, 3, 4}}, {kNewAxis, 1, 0}};
  const auto clipped = clip(piece, {{5, 1}, {9, 1}});
  ASSERT_TRUE(clipped);
  EXPECT_EQ(to_string(*clipped), "7[5:8, 1:2] as [2:3, 11:12, 1:4] axes -1 1 0");
  EXPECT_FALSE(clip(piece, {{0, 0}, {4, 3}}));
}

/// What check_map() says of a map of sources a [2, 3] and b [3] to one target t [3, 3] by these pieces.
std::string verdict(std::vector<MapPiece> pieces) {
  TensorMap map{{f32("t", {3, 3})}, std::move(pieces), {0, 0}};
  map.first[1] = map.pieces.size();
  const auto checked = check_map(map, std::vector{f32("a", {2, 3}), f32("b", {3})});
  return checked ? "" : checked.error().message();
}

TEST(CheckMap, HoldsEveryElementOfBothSidesToAccount) {
  const MapPiece a{TensorId(0), {{0, 0}, {2, 3}}, {{1, 0}, {2, 3}}, {0, 1}};
  const MapPiece b{TensorId(1), {{0}, {3}}, {{0, 0}, {1, 3}}, {kNewAxis, 0}};
  EXPECT_EQ(verdict({a, b}), "");
  EXPECT_THAT(verdict({a}), HasSubstr("'t' of shape [3, 3]: its pieces do not fill it exactly once"));
  MapPiece twice = a;
  twice.source_box = {{0, 0}, {1, 3}};
  twice.target_box = {{0, 0}, {1, 3}};
  EXPECT_THAT(verdict({a, twice}), HasSubstr("'a' of shape [2, 3]: its elements are not all used exactly once"));
  MapPiece wrong = b;
  wrong.axes = {0, kNewAxis};
  EXPECT_THAT(verdict({a, wrong}), HasSubstr("'t' of shape [3, 3]: piece 1[0:3] as [0:1, 0:3] axes 0 -1 of 'b'"));
  MapPiece outside = a;
  outside.target_box.offset[0] = 2;
  EXPECT_THAT(verdict({outside, b}), HasSubstr("does not fit"));
  MapPiece none = a;
  none.source = TensorId(2);
  EXPECT_THAT(verdict({none, b}), HasSubstr("a piece is of no tensor"));
}

}  // namespace
}  // namespace tenplex
