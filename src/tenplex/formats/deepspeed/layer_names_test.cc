// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/layer_names.h"

#include <gtest/gtest.h>

namespace tenplex::deepspeed {
namespace {

TEST(LayerFile, IsNamedForLayerAndTensorRank) {
  const auto plain = parse_layer_file("layer_03-model_states.pt");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->layer, 3);
  EXPECT_EQ(plain->tensor_rank, 0);
  const auto cut = parse_layer_file("layer_112-model_01-model_states.pt");
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->layer, 112);
  EXPECT_EQ(cut->tensor_rank, 1);
}

TEST(LayerFile, IsNoOtherName) {
  for (const std::string_view name :
       {"layer_0_expert_1_mp_rank_00_model_states.pt", "layer_-model_states.pt", "layer_-1-model_states.pt",
        "layer_00-model_-model_states.pt", "layer_00-slice_00-model_states.pt", "layer_00-model_00-model_states.pt.tmp",
        "layer_9999999999-model_states.pt", "mp_rank_00_model_states.pt", ""})
    EXPECT_FALSE(parse_layer_file(name).has_value()) << name;
}

TEST(LayerName, IsOfALayerOrOfATiedModule) {
  const auto plain = parse_layer_name("3.up.weight");
  ASSERT_TRUE(plain.has_value());
  EXPECT_FALSE(plain->tied());
  EXPECT_EQ(plain->layer, 3);
  EXPECT_EQ(plain->rest, "up.weight");
  const auto tied = parse_layer_name("tied_modules.embed.words.weight");
  ASSERT_TRUE(tied.has_value());
  EXPECT_TRUE(tied->tied());
  EXPECT_EQ(tied->module, "embed");
  EXPECT_EQ(tied->rest, "words.weight");
  for (const std::string_view name : {"up.weight", "3", "3.", ".up", "tied_modules.embed", "tied_modules..w", "-3.w"})
    EXPECT_FALSE(parse_layer_name(name).has_value()) << name;
}

}  // namespace
}  // namespace tenplex::deepspeed
