// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/fill.h"

#include <gtest/gtest.h>

#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

ListedCollection of_boxes(const Dims& shape, const std::vector<Box>& boxes) {
  ListedTensor tensor{{"w", DType::kFloat32, shape}, {}, 0};
  for (const Box& box : boxes) tensor.shards.push_back({sub_tensor_of_box(box), {DeviceId(0)}});
  return ListedCollection(1, {tensor});
}

std::vector<Fill> fill(const ListedCollection& source, const SubTensor& target) {
  const SourceIndex index(source, TensorId(0));
  std::vector<Fill> fills;
  const auto result = index.fill(target, &fills);
  EXPECT_TRUE(result.has_value()) << result.error().to_string();
  return fills;
}

std::string error_of(const ListedCollection& source, const SubTensor& target) {
  const SourceIndex index(source, TensorId(0));
  std::vector<Fill> fills;
  const auto result = index.fill(target, &fills);
  return result.has_value() ? "" : result.error().to_string();
}

TEST(SourceIndex, CutsAMiddlePartOfThreeShards) {
  const auto source = of_boxes({12, 2}, {Box{{0, 0}, {4, 2}}, Box{{4, 0}, {4, 2}}, Box{{8, 0}, {4, 2}}});
  const auto fills = fill(source, sub_tensor_of_box({{2, 0}, {8, 2}}));
  ASSERT_EQ(fills.size(), 3U);
  EXPECT_EQ(fills[0].source_shard, 0);
  EXPECT_EQ(fills[0].source, (Piece{Box{{2, 0}, {2, 2}}, 4, {2, 1}}));
  EXPECT_EQ(fills[0].target, (Piece{Box{{2, 0}, {2, 2}}, 0, {2, 1}}));
  EXPECT_EQ(fills[1].source_shard, 1);
  EXPECT_EQ(fills[1].source, (Piece{Box{{4, 0}, {4, 2}}, 0, {2, 1}}));
  EXPECT_EQ(fills[1].target, (Piece{Box{{4, 0}, {4, 2}}, 4, {2, 1}}));
  EXPECT_EQ(fills[2].source_shard, 2);
  EXPECT_EQ(fills[2].source, (Piece{Box{{8, 0}, {2, 2}}, 0, {2, 1}}));
  EXPECT_EQ(fills[2].target, (Piece{Box{{8, 0}, {2, 2}}, 12, {2, 1}}));
}

TEST(SourceIndex, TakesTheLowestNumberedOfOverlappingShards) {
  // Shard 0 holds columns 2..3, shard 1 everything: what shard 0 lacks comes from shard 1, left part first.
  const auto source = of_boxes({1, 6}, {Box{{0, 2}, {1, 2}}, Box{{0, 0}, {1, 6}}});
  const auto fills = fill(source, whole_tensor({1, 6}));
  ASSERT_EQ(fills.size(), 3U);
  EXPECT_EQ(fills[0].source_shard, 0);
  EXPECT_EQ(fills[0].target.box, (Box{{0, 2}, {1, 2}}));
  EXPECT_EQ(fills[1].source_shard, 1);
  EXPECT_EQ(fills[1].target.box, (Box{{0, 0}, {1, 2}}));
  EXPECT_EQ(fills[1].source.local_offset, 0);
  EXPECT_EQ(fills[2].source_shard, 1);
  EXPECT_EQ(fills[2].target.box, (Box{{0, 4}, {1, 2}}));
  EXPECT_EQ(fills[2].source.local_offset, 4);
}

TEST(SourceIndex, KeepsTheOrderOfTheTargetsPieces) {
  const auto source = of_boxes({4}, {Box{{0}, {2}}, Box{{2}, {2}}});
  const SubTensor target{{4}, {Piece{Box{{2}, {2}}, 0, {1}}, Piece{Box{{0}, {2}}, 2, {1}}}};
  const auto fills = fill(source, target);
  ASSERT_EQ(fills.size(), 2U);
  EXPECT_EQ(fills[0].source_shard, 1);
  EXPECT_EQ(fills[0].target.local_offset, 0);
  EXPECT_EQ(fills[1].source_shard, 0);
  EXPECT_EQ(fills[1].target.local_offset, 2);
}

TEST(SourceIndex, CopiesAScalarAndIgnoresEmptyShards) {
  const auto scalar = of_boxes({}, {Box{}});
  EXPECT_EQ(fill(scalar, whole_tensor({})).size(), 1U);
  const auto rows = of_boxes({2}, {Box{{0}, {0}}, Box{{0}, {2}}, Box{{2}, {0}}});
  EXPECT_EQ(fill(rows, whole_tensor({2})).size(), 1U);
  EXPECT_EQ(fill(rows, sub_tensor_of_box({{2}, {0}})).size(), 0U);
  const auto empty = of_boxes({0, 3}, {Box{{0, 0}, {0, 3}}});
  EXPECT_EQ(fill(empty, whole_tensor({0, 3})).size(), 0U);
}

TEST(SourceIndex, NamesTheFirstMissingBox) {
  const auto source = of_boxes({4, 4}, {Box{{0, 0}, {2, 4}}, Box{{2, 0}, {1, 2}}});
  EXPECT_EQ(error_of(source, whole_tensor({4, 4})), "tensor 'w': no source shard holds [2:3, 2:4]");
  EXPECT_EQ(error_of(source, sub_tensor_of_box({{3, 1}, {1, 2}})), "tensor 'w': no source shard holds [3:4, 1:3]");
}

TEST(SourceIndex, RefusesATargetOutsideTheShape) {
  const auto source = of_boxes({4}, {Box{{0}, {4}}});
  EXPECT_EQ(error_of(source, sub_tensor_of_box({{3}, {2}})), "tensor 'w': target box [3:5] does not lie in shape [4]");
  EXPECT_EQ(error_of(source, sub_tensor_of_box({{0, 0}, {1, 1}})),
            "tensor 'w': target box [0:1, 0:1] does not lie in shape [4]");
}

}  // namespace
}  // namespace tenplex
