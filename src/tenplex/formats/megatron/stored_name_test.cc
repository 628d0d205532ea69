// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/stored_name.h"

#include <gtest/gtest.h>

namespace tenplex::megatron {
namespace {

constexpr ModelForm kFused = {false, true};
constexpr ModelForm kModules = {true, false};

TEST(StoredName, OfOneLayer) {
  const StoredName name = parse_stored_name("decoder.layers.12.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_EQ(name.layer, 12);
  EXPECT_EQ(name.stacked(), 0);
  EXPECT_EQ(name.of_module(kFused, 0, 0), "decoder.layers.12.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_EQ(name.of_module(kModules, 0, 0), "decoder.layers.12.input_layernorm.weight");
}

TEST(StoredName, OfAllLayersAndExperts) {
  const StoredName name = parse_stored_name("decoder.layers.mlp.experts.experts.linear_fc1.weight");
  EXPECT_TRUE(name.has_layer);
  EXPECT_TRUE(name.has_expert);
  EXPECT_EQ(name.stacked(), 2);
  EXPECT_EQ(name.of_module(kFused, 3, 5), "decoder.layers.3.mlp.experts.linear_fc1.weight5");
  EXPECT_EQ(name.of_module(kModules, 3, 5), "decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.weight");
}

TEST(StoredName, HalvesAreOneParameter) {
  const StoredName gate = parse_stored_name("decoder.layers.0.mlp.experts.experts.2.linear_fc1.weight_w");
  const StoredName up = parse_stored_name("decoder.layers.0.mlp.experts.experts.2.linear_fc1.weight_v");
  EXPECT_EQ(gate.half, Half::kGate);
  EXPECT_EQ(up.half, Half::kUp);
  EXPECT_EQ(gate.stacked(), 0);
  EXPECT_EQ(gate.of_module(kFused, 0, 0), "decoder.layers.0.mlp.experts.linear_fc1.weight2");
  EXPECT_EQ(gate.of_module(kModules, 0, 0), up.of_module(kModules, 0, 0));
  EXPECT_EQ(parse_stored_name("decoder.layers.mlp.shared_experts.linear_fc2.weight_v").half, Half::kWhole);
}

TEST(StoredName, ModulesThatAreNamedAlready) {
  for (const char* text : {"decoder.layers.1.mlp.experts.linear_fc2.bias7",
                           "decoder.layers.1.mlp.experts.local_experts.7.linear_fc2.bias"}) {
    const StoredName name = parse_stored_name(text);
    EXPECT_EQ(name.expert, 7);
    EXPECT_EQ(name.of_module(kFused, 0, 0), "decoder.layers.1.mlp.experts.linear_fc2.bias7");
  }
  EXPECT_EQ(parse_stored_name("output_layer.weight").of_module(kModules, 0, 0), "output_layer.weight");
  EXPECT_EQ(parse_stored_name("decoder.layers.mlp.router.weight").of_module(kFused, 2, 0),
            "decoder.layers.2.mlp.router.weight");
  EXPECT_FALSE(parse_stored_name("decoder.layers.2.mlp.router.weight").has_expert);
}

}  // namespace
}  // namespace tenplex::megatron
