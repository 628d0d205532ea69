// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layer_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

Result<LayerStages> make_stages(const std::string& stages, std::int64_t layers, std::int64_t count) {
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout,
                           parse_layout("meshes: {d: [pp]}\nstages: {" + stages + "}\ntensors: [{match: '*'}]", "x"));
  return LayerStages::make(layout, LayoutSizes(layout), layers, count);
}

/// "0011": the stage of every layer.
std::string stages(const std::string& text, std::int64_t layers, std::int64_t count) {
  const auto made = make_stages(text, layers, count);
  if (!made) return made.error().to_string();
  std::string digits;
  for (const std::int64_t stage : made->all()) digits += std::to_string(stage);
  return digits;
}

TEST(LayerStages, AreBalancedUnlessSaid) {
  EXPECT_EQ(stages("", 7, 2), "0000111");
  EXPECT_EQ(stages("split: chunk", 5, 4), "00112");
  EXPECT_EQ(stages("virtual: 2", 8, 2), "00110011");
}

TEST(LayerStages, GiveTheFirstAndTheLastStageTheirOwnNumbers) {
  EXPECT_EQ(stages("first: 1, last: 2", 7, 3), "0111122");
  EXPECT_EQ(stages("first: 2", 6, 3), "001122");
  EXPECT_EQ(stages("last: 0, first: 0", 4, 2), "0011");                       // 0: as the others
  EXPECT_EQ(stages("first: 3, last: 1", 4, 2), "0001");                       // nothing is left for others
  EXPECT_EQ(stages("first: 1, last: 1", 4, 1), "0000");                       // one stage has all
  EXPECT_EQ(stages("virtual: 2, first: 2, last: 2", 12, 3), "011112011112");  // 1, 4/2·… chunks of 1, 4, 1
}

TEST(LayerStages, RefuseNumbersThatDoNotAddUp) {
  EXPECT_THAT(stages("first: 1, last: 1", 5, 4), HasSubstr("layout 'x' line 2: 5 layers cannot be dealt out over 4 "
                                                           "stages of 1 chunks with 1 in the first and 1 in the last"));
  EXPECT_THAT(stages("first: 9", 5, 2), HasSubstr("9 and 0 layers in the first and the last stage, but there are 5"));
  EXPECT_THAT(stages("virtual: 2, first: 3", 7, 2), HasSubstr("cannot be dealt out"));
  EXPECT_THAT(stages("table: [0, 2]", 2, 2), HasSubstr("stage 2 of 2 ('pp')"));
  EXPECT_THAT(stages("table: [0, 1]", 3, 2), HasSubstr("the table has 2 layers, found layer 2"));
}

}  // namespace
}  // namespace tenplex
