// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizer slots under naming maps.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/ptc/builtin_maps.h"
#include "tenplex/ptc/map_tensors.h"
#include "tenplex/ptc/testing/tensor_infos.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::string_view kMap =
    "sides: [hf, megatron]\ntensors:\n"
    "  - hf: ['{layer}.k', '{layer}.v']\n"
    "    megatron: {name: '{layer}.kv', blocks: 2}\n"
    "    widths: [1, 1]\n"
    "  - {hf: '{layer}.norm', megatron: {name: norm, stack: layer}}\n"
    "  - {hf: opt.state.one.special, megatron: special}\n";

Result<MapResult> result_of(const std::vector<TensorInfo>& tensors, const std::vector<bool>& kept = {}) {
  return map_tensors(parse_naming_map(kMap, "m").value(), tensors, {}, kept);
}

/// "name dtype [shape]: source[box] as [box] axes …;" for every target.
std::vector<std::string> mapped(const std::vector<TensorInfo>& tensors, const std::vector<bool>& kept = {}) {
  const auto result = result_of(tensors, kept);
  if (!result) return {result.error().to_string()};
  std::vector<std::string> texts;
  for (std::size_t target = 0; target < result->map.targets.size(); ++target) {
    const TensorInfo& tensor = result->map.targets[target];
    std::string text = fmt::format("{} {} {}:", tensor.name, to_string(tensor.dtype), to_string(tensor.shape));
    for (const MapPiece& piece : result->map.pieces_of(target)) {
      const std::string numbered = to_string(piece);
      text += fmt::format(" {}{};", tensors[piece.source.index()].name, numbered.substr(numbered.find('[')));
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(MapSlots, GoTheWayOfTheirParameter) {
  // k0 v0 k1 v1, of the parameter in bfloat16 and of its moment in float32.
  EXPECT_THAT(
      mapped({{"0.k", DType::kBFloat16, {2, 3}},
              {"0.v", DType::kBFloat16, {2, 3}},
              f32("optimizer.state.exp_avg.0.k", {2, 3}),
              f32("optimizer.state.exp_avg.0.v", {2, 3})}),
      ElementsAre("0.kv bfloat16 [4, 3]: 0.k[0:1, 0:3] as [0:1, 0:3] axes 0 1; 0.k[1:2, 0:3] as [2:3, 0:3] axes 0 1; "
                  "0.v[0:1, 0:3] as [1:2, 0:3] axes 0 1; 0.v[1:2, 0:3] as [3:4, 0:3] axes 0 1;",
                  "optimizer.state.exp_avg.0.kv float32 [4, 3]: "
                  "optimizer.state.exp_avg.0.k[0:1, 0:3] as [0:1, 0:3] axes 0 1; "
                  "optimizer.state.exp_avg.0.k[1:2, 0:3] as [2:3, 0:3] axes 0 1; "
                  "optimizer.state.exp_avg.0.v[0:1, 0:3] as [1:2, 0:3] axes 0 1; "
                  "optimizer.state.exp_avg.0.v[1:2, 0:3] as [3:4, 0:3] axes 0 1;"));
}

TEST(MapSlots, KeepTheirOwnFormOfName) {
  EXPECT_THAT(
      mapped({f32("optim.state.0.kv.exp_avg", {4, 1})}),
      ElementsAre("optim.state.0.k.exp_avg float32 [2, 1]: optim.state.0.kv.exp_avg[0:1, 0:1] as [0:1, 0:1] axes 0 1; "
                  "optim.state.0.kv.exp_avg[2:3, 0:1] as [1:2, 0:1] axes 0 1;",
                  "optim.state.0.v.exp_avg float32 [2, 1]: optim.state.0.kv.exp_avg[1:2, 0:1] as [0:1, 0:1] axes 0 1; "
                  "optim.state.0.kv.exp_avg[3:4, 0:1] as [1:2, 0:1] axes 0 1;"));
}

TEST(MapSlots, AreStackedAndUnstacked) {
  EXPECT_THAT(mapped({f32("optimizer.state.m.norm", {2, 3})}),
              ElementsAre("optimizer.state.m.0.norm float32 [3]: optimizer.state.m.norm[0:1, 0:3] as [0:3] axes 1;",
                          "optimizer.state.m.1.norm float32 [3]: optimizer.state.m.norm[1:2, 0:3] as [0:3] axes 1;"));
}

TEST(MapSlots, AreMissedByName) {
  EXPECT_THAT(
      mapped({f32("0.k", {2}), f32("0.v", {2}), f32("optimizer.state.exp_avg.0.k", {2})}).front(),
      HasSubstr("map 'm' line 3: tensor 'optimizer.state.exp_avg.0.v' is missing, 'optimizer.state.exp_avg.0.k' is "
                "there; together they are 'optimizer.state.exp_avg.{layer}.kv'"));
}

TEST(MapSlots, HaveRulesOfTheirOwnWhereTheMapNamesThem) {
  EXPECT_THAT(mapped({f32("opt.state.one.special", {2}), f32("0.norm", {3})}).front(),
              "special float32 [2]: opt.state.one.special[0:2] as [0:2] axes 0;");
}

TEST(MapSlots, OfOneNumberAreHeldAgainstEachOther) {
  const std::vector<TensorInfo> steps = {f32("opt.state.0.k.step", {}), f32("opt.state.0.v.step", {})};
  const auto joined = result_of(steps);
  ASSERT_TRUE(joined) << joined.error().to_string();
  EXPECT_THAT(mapped(steps), ElementsAre("opt.state.0.kv.step float32 []: opt.state.0.k.step[] as [] axes;"));
  EXPECT_THAT(joined->map.equal, ElementsAre(Pair(TensorId(0), TensorId(1))));
  // Taken apart, the number is that of all parts.
  EXPECT_THAT(mapped({f32("opt.state.0.kv.step", {})}),
              ElementsAre("opt.state.0.k.step float32 []: opt.state.0.kv.step[] as [] axes;",
                          "opt.state.0.v.step float32 []: opt.state.0.kv.step[] as [] axes;"));
  EXPECT_THAT(mapped({f32("opt.state.norm.step", {})}).front(),
              HasSubstr("tensor 'opt.state.norm.step' is one number for every layer"));
  EXPECT_THAT(mapped({f32("opt.state.0.norm.step", {}), f32("opt.state.1.norm.step", {})}),
              ElementsAre("opt.state.norm.step float32 []: opt.state.0.norm.step[] as [] axes;"));
}

TEST(MapSlots, OfALargeModelAreAllMapped) {
  // Llama 405B with three slots: 9 tensors a layer become 6, and 3 beside the layers.
  std::vector<TensorInfo> parameters = {f32("model.embed_tokens.weight", {8, 16}), f32("lm_head.weight", {8, 16}),
                                        f32("model.norm.weight", {16})};
  for (int layer = 0; layer < 126; ++layer) {
    const std::string front = fmt::format("model.layers.{}.", layer);
    for (const char* name : {"self_attn.q_proj.weight", "self_attn.o_proj.weight"})
      parameters.push_back(f32(front + name, {128, 128}));
    for (const char* name : {"self_attn.k_proj.weight", "self_attn.v_proj.weight"})
      parameters.push_back(f32(front + name, {8, 128}));
    for (const char* name : {"mlp.gate_proj.weight", "mlp.up_proj.weight"})
      parameters.push_back(f32(front + name, {64, 128}));
    parameters.push_back(f32(front + "mlp.down_proj.weight", {128, 64}));
    for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight"})
      parameters.push_back(f32(front + name, {128}));
  }
  std::vector<TensorInfo> tensors = parameters;
  for (const char* slot : {"fp32_param", "exp_avg", "exp_avg_sq"})
    for (const TensorInfo& parameter : parameters)
      tensors.push_back(f32(fmt::format("optimizer.state.{}.{}", slot, parameter.name), parameter.shape));
  const auto made = map_tensors(builtin_map("hf-llama").value(), tensors, {{"heads", 128}, {"groups", 8}});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->map.targets.size(), 4U * (126 * 6 + 3));
}

TEST(MapTensors, LeavesAloneWhatIsKept) {
  EXPECT_THAT(mapped({f32("common.x", {2}), f32("0.norm", {3})}, {true, false}),
              ElementsAre("norm float32 [1, 3]: 0.norm[0:3] as [0:1, 0:3] axes -1 0;",
                          "common.x float32 [2]: common.x[0:2] as [0:2] axes 0;"));
  EXPECT_THAT(mapped({f32("common.x", {2}), f32("0.norm", {3})}).front(), HasSubstr("tensor 'common.x'"));
}

}  // namespace
}  // namespace tenplex
