// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/model_order.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace tenplex::megatron {
namespace {

TEST(ModelOrder, IsThatOfMegatronCoresModel) {
  constexpr std::array<std::string_view, 14> kOrder = {
      "embedding.word_embeddings.weight",
      "embedding.position_embeddings.weight",
      "decoder.layers.2.input_layernorm.weight",
      "decoder.layers.2.self_attention.linear_proj.weight",
      "decoder.layers.2.self_attention.linear_qkv.weight",
      "decoder.layers.2.mlp.router.weight",
      "decoder.layers.2.mlp.experts.local_experts.3.linear_fc1.weight",
      "decoder.layers.2.mlp.experts.local_experts.3.linear_fc2.weight",
      "decoder.layers.2.mlp.experts.local_experts.10.linear_fc1.weight",
      "decoder.layers.2.post_mlp_layernorm.weight",
      "decoder.layers.10.mlp.linear_fc1.weight",
      "decoder.layers.10.mlp.linear_fc2.weight",
      "decoder.final_layernorm.weight",
      "output_layer.weight",
  };
  for (std::size_t at = 1; at < kOrder.size(); ++at) {
    EXPECT_LT(place_in_model(split_numbers(kOrder[at - 1])), place_in_model(split_numbers(kOrder[at]))) << kOrder[at];
    EXPECT_TRUE(place_in_model(split_numbers(kOrder[at])).known) << kOrder[at];
  }
}

TEST(ModelOrder, DoesNotKnowOtherModules) {
  EXPECT_FALSE(place_in_model(split_numbers("decoder.layers.0.mixer.weight")).known);
  EXPECT_FALSE(place_in_model(split_numbers("mtp.weight")).known);
}

}  // namespace
}  // namespace tenplex::megatron
