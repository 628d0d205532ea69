// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/builtin_layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/ptc/rule_collection.h"
#include "tenplex/ptc/testing/tensor_infos.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shards(const RuleCollection& collection, std::string_view name) {
  const TensorId tensor = *collection.find(name);
  std::string text;
  SubTensor shard;
  for (std::int64_t index = 0; index < collection.shard_count(tensor); ++index) {
    collection.shard(tensor, index, &shard);
    text += to_string(shard.local_shape);
    for (const Piece& piece : shard.pieces) text += to_string(piece.box);
    text += ' ';
  }
  return text;
}

std::unique_ptr<RuleCollection> make_builtin(const char* layout, const MeshSizes& mesh,
                                             std::vector<TensorInfo> tensors) {
  auto made = RuleCollection::make(builtin_layout(layout).value(), mesh, std::move(tensors));
  EXPECT_TRUE(made) << (made ? "" : made.error().to_string());
  return std::move(made).value();
}

TEST(BuiltinLayouts, AreThereAndAllParse) {
  std::vector<std::string_view> names;
  for (const BuiltinYaml& layout : builtin_layouts()) {
    names.push_back(layout.name);
    EXPECT_FALSE(layout.description.empty());
    const auto parsed = builtin_layout(layout.name);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->text(), layout.text);
    EXPECT_EQ(parsed->rules().family, layout.name);
  }
  EXPECT_THAT(names, ElementsAre("fsdp", "hf-llama", "megatron-bert", "megatron-gpt", "replicated", "zero"));
  EXPECT_THAT(builtin_layout("x").error().message(),
              HasSubstr("there are: fsdp, hf-llama, megatron-bert, megatron-gpt, replicated, zero"));
}

TEST(BuiltinLayouts, ReplicatedKeepsTensorsWhole) {
  const auto made = make_builtin("replicated", {{"dp", 2}}, {f32("w", {3, 2}), f32("s", {})});
  EXPECT_EQ(shards(*made, "w"), "[3, 2][0:3, 0:2] ");
  std::vector<DeviceId> devices;
  made->holders(TensorId(1), 0, &devices);
  EXPECT_THAT(devices, ElementsAre(DeviceId(0), DeviceId(1)));
}

TEST(BuiltinLayouts, FsdpCutsRowsAsTorchChunk) {
  const auto made =
      make_builtin("fsdp", {{"fsdp", 4}}, {f32("w", {6, 2}), f32("step", {}), f32("optim.state.w.exp_avg", {6, 2})});
  EXPECT_EQ(shards(*made, "w"), "[2, 2][0:2, 0:2] [2, 2][2:4, 0:2] [2, 2][4:6, 0:2] [0, 2] ");
  EXPECT_EQ(shards(*made, "optim.state.w.exp_avg"), shards(*made, "w"));
  EXPECT_EQ(shards(*made, "step"), "[][] ");
}

TEST(BuiltinLayouts, ZeroCutsOneBucket) {
  // 5 + 6 elements padded to 12, over 3.
  const auto made = make_builtin("zero", {{"dp", 3}}, {f32("a", {5}), f32("b", {2, 3}), f32("s", {})});
  EXPECT_EQ(shards(*made, "a"), "[4][0:4] [1][4:5] [0] ");
  EXPECT_EQ(shards(*made, "b"), "[0] [3][0:1, 0:3] [3][1:2, 0:3] ");
}

TEST(BuiltinLayouts, LlamaCutsHeadsAndColumns) {
  const std::string layer = "model.layers.0.";
  const auto made = make_builtin(
      "hf-llama", {{"tp", 2}},
      {f32("model.embed_tokens.weight", {10, 4}), f32("lm_head.weight", {10, 4}),
       f32(layer + "self_attn.q_proj.weight", {8, 4}), f32(layer + "self_attn.k_proj.bias", {2}),
       f32(layer + "self_attn.o_proj.weight", {4, 8}), f32(layer + "mlp.down_proj.weight", {4, 6}),
       f32(layer + "input_layernorm.weight", {4}), f32(layer + "self_attn.q_norm.weight", {4}),
       f32("model.norm.weight", {4}), f32("optim.state." + layer + "mlp.down_proj.weight.exp_avg", {4, 6})});
  EXPECT_EQ(shards(*made, "model.embed_tokens.weight"), "[5, 4][0:5, 0:4] [5, 4][5:10, 0:4] ");
  EXPECT_EQ(shards(*made, "lm_head.weight"), "[5, 4][0:5, 0:4] [5, 4][5:10, 0:4] ");
  EXPECT_EQ(shards(*made, layer + "self_attn.q_proj.weight"), "[4, 4][0:4, 0:4] [4, 4][4:8, 0:4] ");
  EXPECT_EQ(shards(*made, layer + "self_attn.k_proj.bias"), "[1][0:1] [1][1:2] ");
  EXPECT_EQ(shards(*made, layer + "self_attn.o_proj.weight"), "[4, 4][0:4, 0:4] [4, 4][0:4, 4:8] ");
  EXPECT_EQ(shards(*made, layer + "mlp.down_proj.weight"), "[4, 3][0:4, 0:3] [4, 3][0:4, 3:6] ");
  EXPECT_EQ(shards(*made, "optim.state." + layer + "mlp.down_proj.weight.exp_avg"),
            "[4, 3][0:4, 0:3] [4, 3][0:4, 3:6] ");
  for (const std::string& name :
       {layer + "input_layernorm.weight", layer + "self_attn.q_norm.weight", std::string("model.norm.weight")})
    EXPECT_EQ(shards(*made, name), "[4][0:4] ");
}

TEST(BuiltinLayouts, LlamaCutsWhatTensorParallelismLeavesByFsdp) {
  const auto made =
      make_builtin("hf-llama", {{"tp", 2}, {"fsdp", 2}}, {f32("model.layers.0.mlp.up_proj.weight", {8, 2})});
  EXPECT_EQ(shards(*made, "model.layers.0.mlp.up_proj.weight"),
            "[2, 2][0:2, 0:2] [2, 2][2:4, 0:2] [2, 2][4:6, 0:2] [2, 2][6:8, 0:2] ");
}

}  // namespace
}  // namespace tenplex
