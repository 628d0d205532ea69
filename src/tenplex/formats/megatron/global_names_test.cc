// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/global_names.h"

#include <gtest/gtest.h>

namespace tenplex::megatron {
namespace {

std::string moved(std::string_view name, std::int64_t layers, std::int64_t experts) {
  const NumberedName split = split_numbers(name);
  return split.with(split.layer.value_or(0) + layers, split.expert.value_or(0) + experts);
}

TEST(GlobalNames, AddTheLayersBefore) {
  EXPECT_EQ(moved("decoder.layers.1.mlp.linear_fc1.weight", 4, 0), "decoder.layers.5.mlp.linear_fc1.weight");
  EXPECT_EQ(moved("encoder.layers.0.input_layernorm.bias", 12, 0), "encoder.layers.12.input_layernorm.bias");
}

TEST(GlobalNames, AddTheExpertsBefore) {
  EXPECT_EQ(moved("decoder.layers.0.mlp.experts.local_experts.2.linear_fc1.weight", 4, 8),
            "decoder.layers.4.mlp.experts.local_experts.10.linear_fc1.weight");
  EXPECT_EQ(moved("decoder.layers.0.mlp.experts.linear_fc2.weight3", 0, 8),
            "decoder.layers.0.mlp.experts.linear_fc2.weight11");
  EXPECT_EQ(moved("decoder.layers.0.mlp.experts.linear_fc1.bias0", 0, 8),
            "decoder.layers.0.mlp.experts.linear_fc1.bias8");
}

TEST(GlobalNames, LeaveOtherNamesAlone) {
  for (const char* name : {"embedding.word_embeddings.weight", "decoder.final_layernorm.weight",
                           "decoder.layers.weight", "decoder.layers.x.weight", "decoder.layers.-1.weight",
                           "decoder.layers.1234567.weight", "mtp.layers.0.weight", "", "decoder.layers."})
    EXPECT_EQ(moved(name, 4, 8), name);
}

TEST(GlobalNames, KeepTheExpertsOfOtherModules) {
  EXPECT_EQ(moved("decoder.layers.0.mlp.shared_experts.linear_fc1.weight", 1, 8),
            "decoder.layers.1.mlp.shared_experts.linear_fc1.weight");
  EXPECT_EQ(moved("decoder.layers.0.mlp.experts.linear_fc1.weight", 1, 8),
            "decoder.layers.1.mlp.experts.linear_fc1.weight");
}

TEST(GlobalNames, NameTheStackOfTheLayer) {
  EXPECT_EQ(split_numbers("encoder.layers.3.w").stack, "encoder");
  EXPECT_EQ(split_numbers("embedding.w").stack, "");
}

}  // namespace
}  // namespace tenplex::megatron
