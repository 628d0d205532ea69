// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/expert_names.h"

#include <gtest/gtest.h>

namespace tenplex::deepspeed {
namespace {

TEST(ExpertName, IsTakenApart) {
  const auto name = parse_expert_name("layers.1.moe.deepspeed_moe.experts.deepspeed_experts.12.up.weight");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->expert, 12);
  EXPECT_EQ(name->with(3), "layers.1.moe.deepspeed_moe.experts.deepspeed_experts.3.up.weight");
  for (const std::string_view other :
       {"layers.1.moe.deepspeed_moe.gate.wg.weight", "a.deepspeed_experts.1.b",
        "m.deepspeed_moe.experts.deepspeed_experts.x.b", "m.deepspeed_moe.experts.deepspeed_experts.1"})
    EXPECT_FALSE(parse_expert_name(other).has_value()) << other;
}

TEST(ExpertFile, IsNamedForLayerAndExpert) {
  const auto file = parse_expert_file("layer_0_expert_13_mp_rank_02_model_states.pt");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->layer, 0);
  EXPECT_EQ(file->expert, 13);
  EXPECT_EQ(file->model_rank, 2);
  EXPECT_EQ(parse_expert_optimizer("expp_rank_3_mp_rank_00_optim_states.pt"), 3);
  for (const std::string_view name :
       {"layer_00-model_00-model_states.pt", "layer_0_expert_-1_mp_rank_00_model_states.pt", "expert_1_mp_rank_00.pt",
        "layer_0_expert_1_mp_rank_00_model_states.pt.tmp", "expp_rank_0_mp_rank_01_optim_states.pt", ""}) {
    EXPECT_FALSE(parse_expert_file(name).has_value()) << name;
    EXPECT_FALSE(parse_expert_optimizer(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace tenplex::deepspeed
