// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The layouts megatron-gpt and megatron-bert, each construct against pieces worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tenplex/ptc/builtin_layouts.h"
#include "tenplex/ptc/rule_collection.h"
#include "tenplex/ptc/testing/tensor_infos.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Made = Result<std::unique_ptr<RuleCollection>>;

Made make_megatron(const char* name, const MeshSizes& mesh, std::vector<TensorInfo> tensors,
                   const NamedSizes& sizes = {}, std::vector<std::string> objects = {}, int zero = 0) {
  TENPLEX_ASSIGN_OR_RETURN(Layout layout, builtin_layout(name));
  if (zero > 0) {
    TENPLEX_ASSIGN_OR_RETURN(layout, layout.with_zero(zero));
  }
  TENPLEX_ASSIGN_OR_RETURN(layout,
                           layout.with_sizes(sizes, [](std::string_view) { return std::optional<std::int64_t>(); }));
  return RuleCollection::make(layout, mesh, std::move(tensors), std::move(objects));
}

/// What a device holds of a tensor, as `text_of` says it; "-" if nothing.
template <typename TextOf>
std::string held(const Made& made, std::string_view tensor, int device, TextOf text_of) {
  if (!made) return made.error().to_string();
  std::vector<std::int64_t> shards;
  const TensorId id = *(*made)->find(tensor);
  (*made)->shards_of_device(id, DeviceId(device), &shards);
  if (shards.empty()) return "-";
  SubTensor shard;
  (*made)->shard(id, shards.front(), &shard);
  return text_of(shard);
}

/// The boxes, in local order.
std::string on(const Made& made, std::string_view tensor, int device) {
  return held(made, tensor, device, [](const SubTensor& shard) {
    std::string text;
    for (const Piece& piece : shard.pieces) text += to_string(piece.box);
    return text;
  });
}

std::string local(const Made& made, std::string_view tensor, int device) {
  return held(made, tensor, device, [](const SubTensor& shard) { return to_string(shard); });
}

const std::string kLayer = "decoder.layers.1.";
const std::string kStack = "decoder.layers.";

TEST(MegatronGpt, CutsALayerByTensorParallelism) {
  const auto made = make_megatron(
      "megatron-gpt", {{"tp", 2}},
      {f32(kLayer + "self_attention.linear_qkv.weight", {8, 4}), f32(kLayer + "self_attention.linear_qkv.bias", {8}),
       f32(kLayer + "self_attention.linear_proj.weight", {4, 6}), f32(kLayer + "self_attention.linear_proj.bias", {4}),
       f32(kLayer + "mlp.linear_fc2.weight", {4, 6}), f32(kLayer + "mlp.linear_fc1.weight", {6, 4}),
       f32(kLayer + "self_attention.q_layernorm.weight", {2})});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(on(made, kLayer + "self_attention.linear_qkv.weight", 1), "[4:8, 0:4]");
  EXPECT_EQ(on(made, kLayer + "self_attention.linear_qkv.bias", 1), "[4:8]");
  EXPECT_EQ(on(made, kLayer + "self_attention.linear_proj.weight", 1), "[0:4, 3:6]");
  EXPECT_EQ(on(made, kLayer + "self_attention.linear_proj.bias", 1), "[0:4]");
  EXPECT_EQ(on(made, kLayer + "mlp.linear_fc2.weight", 1), "[0:4, 3:6]");
  EXPECT_EQ(on(made, kLayer + "mlp.linear_fc1.weight", 1), "[3:6, 0:4]");  // 6 rows, 6 columns: not gated
  EXPECT_EQ(on(made, kLayer + "self_attention.q_layernorm.weight", 1), "[0:2]");
}

TEST(MegatronGpt, SeesAGatedMlpByItsShapes) {
  // 12 rows, 6 columns: gate rows 0 to 5, up rows 6 to 11. Device 1 of 2 has the second half of each.
  const auto gated =
      make_megatron("megatron-gpt", {{"tp", 2}},
                    {f32(kLayer + "mlp.linear_fc1.weight", {12, 4}), f32(kLayer + "mlp.linear_fc1.bias", {12}),
                     f32(kLayer + "mlp.linear_fc2.weight", {4, 6})});
  EXPECT_EQ(on(gated, kLayer + "mlp.linear_fc1.weight", 1), "[3:6, 0:4][9:12, 0:4]");
  EXPECT_EQ(on(gated, kLayer + "mlp.linear_fc1.bias", 0), "[0:3][6:9]");
  const auto neither =
      make_megatron("megatron-gpt", {{"tp", 2}},
                    {f32(kLayer + "mlp.linear_fc1.weight", {10, 4}), f32(kLayer + "mlp.linear_fc2.weight", {4, 6})});
  EXPECT_THAT(on(neither, "", 0), HasSubstr("dim 0 must be 1 to 16 times dim 1 of tensor 'decoder.layers.1.mlp."
                                            "linear_fc2.weight' of shape [4, 6]: expected a multiple of 6, found 10"));
  EXPECT_THAT(on(make_megatron("megatron-gpt", {}, {f32(kLayer + "mlp.linear_fc1.weight", {12, 4})}), "", 0),
              HasSubstr("its segments are told by dim 1 of tensor 'decoder.layers.1.mlp.linear_fc2.weight', which is "
                        "not there"));
}

TEST(MegatronGpt, CutsBlocksOfGateAndUpThatAlternate) {
  // Blocks of 2: w0 w1 v0 v1 w2 w3 v2 v3. Device 1 of 2 has w2 w3 v2 v3, which follow each other.
  const std::vector<TensorInfo> tensors = {f32(kLayer + "mlp.linear_fc1.weight", {8, 1}),
                                           f32(kLayer + "mlp.linear_fc2.weight", {1, 4})};
  EXPECT_EQ(on(make_megatron("megatron-gpt", {{"tp", 2}}, tensors, {{"glu_interleave", 2}}),
               kLayer + "mlp.linear_fc1.weight", 1),
            "[4:8, 0:1]");
  EXPECT_EQ(on(make_megatron("megatron-gpt", {{"tp", 2}}, tensors), kLayer + "mlp.linear_fc1.weight", 1),
            "[2:4, 0:1][6:8, 0:1]");
}

TEST(MegatronGpt, CutsAStackByStageThenByTensorParallelism) {
  // Device = tp + 2·pp.
  const auto made = make_megatron(
      "megatron-gpt", {{"tp", 2}, {"pp", 2}},
      {f32(kStack + "self_attention.linear_qkv.weight", {4, 8, 3}),
       f32(kStack + "self_attention.linear_proj.bias", {4, 3}), f32(kStack + "mlp.linear_fc1.weight", {4, 8, 3}),
       f32(kStack + "mlp.linear_fc2.weight", {4, 3, 4})});
  EXPECT_EQ(on(made, kStack + "self_attention.linear_qkv.weight", 3), "[2:4, 4:8, 0:3]");
  EXPECT_EQ(on(made, kStack + "self_attention.linear_proj.bias", 2), "[2:4, 0:3]");
  EXPECT_EQ(on(made, kStack + "mlp.linear_fc1.weight", 1), "[0:2, 2:4, 0:3][0:2, 6:8, 0:3]");
  EXPECT_EQ(on(made, kStack + "mlp.linear_fc2.weight", 2), "[2:4, 0:3, 0:2]");
}

TEST(MegatronGpt, GivesAStageTheLayersOfItsChunks) {
  // 4 layers in 4 chunks of 1: stages 0 1 0 1. Stage 1 has the layers 1 and 3, one after the other in its array.
  const std::vector<TensorInfo> tensors = {f32(kStack + "self_attention.linear_proj.bias", {4, 3}),
                                           f32("decoder.layers.2.mlp.router.weight", {2, 3})};
  const auto made = make_megatron("megatron-gpt", {{"pp", 2}}, tensors, {{"virtual", 2}});
  EXPECT_EQ(local(made, kStack + "self_attention.linear_proj.bias", 1),
            "[2, 3] | [1:2, 0:3] at 0 step [3, 1] | [3:4, 0:3] at 3 step [3, 1]");
  EXPECT_EQ(on(made, "decoder.layers.2.mlp.router.weight", 0), "[0:2, 0:3]");
  EXPECT_EQ(on(made, "decoder.layers.2.mlp.router.weight", 1), "-");
  const auto uneven = make_megatron("megatron-gpt", {{"pp", 2}}, tensors, {{"first", 1}});
  EXPECT_EQ(on(uneven, kStack + "self_attention.linear_proj.bias", 0), "[0:1, 0:3]");
  EXPECT_EQ(on(uneven, kStack + "self_attention.linear_proj.bias", 1), "[1:4, 0:3]");
}

TEST(MegatronGpt, CutsAStackByATableOfStages) {
  const Layout layout = parse_layout(
                            "meshes: {d: [pp]}\nstages: {table: [1, 0, 0, 1, 0]}\n"
                            "tensors: [{match: w, slice: [{dim: 0, by: pp, split: stages}]}]",
                            "x")
                            .value();
  const auto made = RuleCollection::make(layout, {{"pp", 2}}, {f32("w", {5, 2})});
  EXPECT_EQ(local(made, "w", 0), "[3, 2] | [1:3, 0:2] at 0 step [2, 1] | [4:5, 0:2] at 4 step [2, 1]");
  EXPECT_EQ(local(made, "w", 1), "[2, 2] | [0:1, 0:2] at 0 step [2, 1] | [3:4, 0:2] at 2 step [2, 1]");
  EXPECT_THAT(local(RuleCollection::make(layout, {{"pp", 2}}, {f32("w", {6, 2})}), "w", 0),
              HasSubstr("the table has 5 layers, found layer 5"));
}

TEST(MegatronGpt, RefusesStacksThatDisagreeAboutTheNumberOfLayers) {
  const auto made = make_megatron(
      "megatron-gpt", {{"pp", 2}},
      {f32(kStack + "self_attention.linear_proj.bias", {4, 3}), f32(kStack + "mlp.router.weight", {3, 2, 3})});
  EXPECT_THAT(on(made, "", 0), HasSubstr("tensor 'decoder.layers.mlp.router.weight' of shape [3, 2, 3] on mesh 'dense' "
                                         "(tp=1,cp=1,dp=1,pp=2)"));
  EXPECT_THAT(on(made, "", 0), HasSubstr("dim 0 numbers layers: expected 4"));
}

TEST(MegatronGpt, NumbersExpertsOverTheSameDevicesInAnotherWay) {
  // 8 devices: tp=2, dp=4. ep=2, etp=1: device = ep + 2·edp, edp = 4. Expert 5 of 8 is in the second half.
  const std::string expert = "decoder.layers.0.mlp.experts.experts.";
  const std::vector<TensorInfo> tensors = {f32(expert + "linear_fc1.weight", {8, 4, 3}),
                                           f32(expert + "linear_fc2.weight", {8, 3, 2}),
                                           f32(kStack + "mlp.experts.experts.linear_fc1.weight", {1, 8, 4, 3}),
                                           f32(kStack + "mlp.experts.experts.linear_fc2.weight", {1, 8, 3, 2}),
                                           f32(expert + "5.linear_fc1.weight_w", {2, 3}),
                                           f32(expert + "7.linear_fc2.weight", {3, 2}),
                                           f32("decoder.layers.0.mlp.router.weight", {8, 3})};
  const auto made = make_megatron("megatron-gpt", {{"tp", 2}, {"dp", 4}, {"ep", 2}, {"etp", 1}}, tensors);
  EXPECT_EQ(on(made, expert + "linear_fc1.weight", 0), "[0:4, 0:4, 0:3]");
  EXPECT_EQ(on(made, expert + "linear_fc1.weight", 7), "[4:8, 0:4, 0:3]");
  EXPECT_EQ(on(made, expert + "5.linear_fc1.weight_w", 2), "-");
  EXPECT_EQ(on(made, expert + "5.linear_fc1.weight_w", 3), "[0:2, 0:3]");
  EXPECT_EQ(on(made, "decoder.layers.0.mlp.router.weight", 6), "[0:8, 0:3]");
  // etp as tp where it is left out: device = etp + 2·ep + 4·edp. Device 3 has etp 1, ep 1.
  const auto etp = make_megatron("megatron-gpt", {{"tp", 2}, {"dp", 4}, {"ep", 2}}, tensors);
  EXPECT_EQ(on(etp, expert + "linear_fc1.weight", 3), "[4:8, 1:2, 0:3][4:8, 3:4, 0:3]");
  EXPECT_EQ(on(etp, expert + "linear_fc2.weight", 3), "[4:8, 0:3, 1:2]");
  EXPECT_EQ(on(etp, kStack + "mlp.experts.experts.linear_fc1.weight", 3), "[0:1, 4:8, 1:2, 0:3][0:1, 4:8, 3:4, 0:3]");
  EXPECT_EQ(on(etp, kStack + "mlp.experts.experts.linear_fc2.weight", 3), "[0:1, 4:8, 0:3, 1:2]");
  EXPECT_EQ(on(etp, expert + "7.linear_fc2.weight", 3), "[0:3, 1:2]");
  EXPECT_THAT(on(make_megatron("megatron-gpt", {{"tp", 2}, {"dp", 3}, {"ep", 2}}, tensors), "", 0),
              HasSubstr("mesh 'dense' [tp, cp, dp, pp] has 6 devices, which mesh 'expert' [etp, ep, edp, pp] with 4 "
                        "cannot share out: 'edp' is what is left"));
}

TEST(MegatronGpt, TakesGroupedSequentialAndSharedExperts) {
  const std::string mlp = "decoder.layers.0.mlp.";
  const auto made = make_megatron(
      "megatron-gpt", {{"tp", 1}, {"dp", 2}, {"ep", 2}},
      {f32(mlp + "experts.linear_fc1.weight0", {4, 3}), f32(mlp + "experts.linear_fc2.weight0", {3, 2}),
       f32(mlp + "experts.linear_fc1.weight1", {4, 3}), f32(mlp + "experts.linear_fc2.weight1", {3, 2}),
       f32(mlp + "experts.local_experts.1.linear_fc1.weight", {4, 3}),
       f32(mlp + "experts.local_experts.1.linear_fc2.weight", {3, 2}),
       f32(mlp + "shared_experts.linear_fc1.weight", {4, 3}), f32(mlp + "shared_experts.linear_fc2.weight", {3, 2})});
  EXPECT_EQ(on(made, mlp + "experts.linear_fc1.weight0", 0), "[0:4, 0:3]");
  EXPECT_EQ(on(made, mlp + "experts.linear_fc1.weight0", 1), "-");
  EXPECT_EQ(on(made, mlp + "experts.linear_fc2.weight1", 1), "[0:3, 0:2]");
  EXPECT_EQ(on(made, mlp + "experts.local_experts.1.linear_fc2.weight", 0), "-");
  EXPECT_EQ(on(made, mlp + "shared_experts.linear_fc2.weight", 1), "[0:3, 0:2]");
}

TEST(MegatronGpt, KeepsTiedEmbeddingsOnBothEnds) {
  const std::vector<TensorInfo> tied = {f32("embedding.word_embeddings.weight", {13, 2}),
                                        f32("embedding.position_embeddings.weight", {5, 2})};
  std::vector<TensorInfo> untied = tied;
  untied.push_back(f32("output_layer.weight", {13, 2}));
  const NamedSizes sizes = {{"divisor", 4}};
  const auto one = make_megatron("megatron-gpt", {{"tp", 2}, {"pp", 3}}, tied, sizes);
  const auto two = make_megatron("megatron-gpt", {{"tp", 2}, {"pp", 3}}, untied, sizes);
  // 13 rows are padded to 16: 8 and 8, of which 5 are data.
  EXPECT_EQ(local(one, "embedding.word_embeddings.weight", 5), "[8, 2] | [8:13, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(on(one, "embedding.word_embeddings.weight", 3), "-");
  EXPECT_EQ(on(two, "embedding.word_embeddings.weight", 5), "-");
  EXPECT_EQ(on(two, "output_layer.weight", 4), "[0:8, 0:2]");
  EXPECT_EQ(on(two, "output_layer.weight", 0), "-");
  EXPECT_EQ(on(two, "embedding.position_embeddings.weight", 1), "[0:5, 0:2]");
  EXPECT_EQ(on(two, "embedding.position_embeddings.weight", 2), "-");
}

TEST(MegatronGpt, LeavesStoredPaddingOutWhereTheVocabularyIsKnown) {
  const auto made = make_megatron("megatron-gpt", {{"tp", 1}}, {f32("output_layer.weight", {16, 2})},
                                  {{"vocab", 13}, {"divisor", 4}});
  EXPECT_EQ((*made)->tensors()[0].shape, (Dims{13, 2}));
  EXPECT_EQ(local(made, "output_layer.weight", 0), "[16, 2] | [0:13, 0:2] at 0 step [2, 1]");
}

TEST(MegatronGpt, CutsSlotsAsTheirParameter) {
  const std::string fc1 = kStack + "mlp.linear_fc1.weight";
  const std::vector<TensorInfo> slots = {f32("optimizer.state.exp_avg." + fc1, {2, 8, 3}),
                                         f32("optimizer.state.exp_avg." + kStack + "mlp.linear_fc2.weight", {2, 3, 4})};
  std::vector<TensorInfo> all = slots;
  all.push_back(f32(fc1, {2, 8, 3}));
  all.push_back(f32(kStack + "mlp.linear_fc2.weight", {2, 3, 4}));
  for (const std::vector<TensorInfo>& tensors : {slots, all})
    EXPECT_EQ(on(make_megatron("megatron-gpt", {{"tp", 2}, {"pp", 2}}, tensors), slots[0].name, 3),
              "[1:2, 2:4, 0:3][1:2, 6:8, 0:3]");
}

TEST(MegatronGpt, CutsSlotsOnceMoreWithZero1) {
  // linear_proj [4, 6] by tp: columns 3 to 5. The 12 elements of device (tp 1, dp 1) in two: rows 2 and 3.
  const std::string name = kLayer + "self_attention.linear_proj.weight";
  const std::vector<TensorInfo> tensors = {f32(name, {4, 6}), f32("optimizer.state.exp_avg." + name, {4, 6}),
                                           f32("optimizer.state.step." + name, {})};
  for (const int zero : {1, 2}) {
    const auto made = make_megatron("megatron-gpt", {{"tp", 2}, {"dp", 2}}, tensors, {}, {}, zero);
    EXPECT_EQ(on(made, name, 3), "[0:4, 3:6]");
    EXPECT_EQ(local(made, tensors[1].name, 3), "[6] | [2:4, 3:6] at 0 step [3, 1]");
    EXPECT_EQ(on(made, tensors[2].name, 3), "[]");
  }
  const auto made = make_megatron("megatron-gpt", {{"tp", 2}, {"dp", 2}}, tensors, {}, {}, 3);
  EXPECT_EQ(local(made, name, 3), "[6] | [2:4, 3:6] at 0 step [3, 1]");
  EXPECT_EQ(local(made, tensors[1].name, 3), "[6] | [2:4, 3:6] at 0 step [3, 1]");
  EXPECT_EQ(on(made, tensors[2].name, 3), "[]");
}

TEST(MegatronGpt, PadsTheRangesOfZero3) {
  // 5 elements over 2: 3 and 3, the last one padding.
  const auto made = make_megatron("replicated", {{"dp", 2}}, {f32("w", {5})}, {}, {}, 3);
  EXPECT_EQ(local(made, "w", 1), "[3] | [3:5] at 0 step [1]");
}

TEST(MegatronGpt, HasNoRuleForNamesOfOtherModels) {
  EXPECT_THAT(on(make_megatron("megatron-gpt", {}, {f32("model.norm.weight", {4})}), "", 0),
              HasSubstr("tensor 'model.norm.weight' of shape [4]: no rule of layout 'megatron-gpt' matches"));
}

TEST(MegatronGpt, GivesObjectsToTheDevicesThatNeedThem) {
  // Device = tp + 2·dp + 4·pp; 4 layers on 2 stages; experts: ep + 2·edp + 4·pp with etp 1.
  const std::vector<std::string> names = {"decoder.layers.2.mlp.linear_fc1._extra_state/shard_0_1.scale",
                                          "decoder.layers.mlp.linear_fc1._extra_state/shard_3_4",
                                          "decoder.layers.mlp.experts.experts.linear_fc1._extra_state/shard_2.5_4.8",
                                          "decoder.layers.0.mlp.experts.experts.linear_fc1._extra_state/shard_7_8.x",
                                          "decoder.final_layernorm._extra_state/shard_0_1",
                                          "rng_state/shard_1.1_2.2.0.np_rng_state",
                                          "rng_state/shard_0.1.1_2.2.2",
                                          "common.iteration"};
  const auto made = make_megatron("megatron-gpt", {{"tp", 2}, {"dp", 2}, {"pp", 2}, {"ep", 2}, {"etp", 1}},
                                  {f32(kStack + "self_attention.linear_proj.bias", {4, 3})}, {}, names);
  ASSERT_TRUE(made) << made.error().to_string();
  std::vector<int> owners;
  for (const ObjectInfo& object : (*made)->objects()) owners.push_back(object.owner.value());
  EXPECT_THAT(owners, ElementsAre(4, 4, 5, 1, 4, 5, 3, 0));
}

TEST(MegatronBert, HasItsHeadsOnTheLastStage) {
  const auto made = make_megatron(
      "megatron-bert", {{"tp", 2}, {"pp", 2}},
      {f32("embedding.word_embeddings.weight", {8, 2}), f32("embedding.tokentype_embeddings.weight", {2, 2}),
       f32("encoder.layers.0.mlp.linear_fc1.weight", {8, 2}), f32("encoder.layers.0.mlp.linear_fc2.weight", {2, 8}),
       f32("encoder.layers.1.self_attention.linear_qkv.weight", {6, 2}), f32("output_layer.bias", {8}),
       f32("lm_head.dense.weight", {2, 2}), f32("pooler.dense.bias", {2}), f32("binary_head.weight", {2, 2})},
      {{"divisor", 4}});
  EXPECT_EQ(on(made, "embedding.word_embeddings.weight", 3), "[4:8, 0:2]");  // tied
  EXPECT_EQ(on(made, "embedding.tokentype_embeddings.weight", 2), "-");
  EXPECT_EQ(on(made, "encoder.layers.0.mlp.linear_fc1.weight", 1), "[4:8, 0:2]");
  EXPECT_EQ(on(made, "encoder.layers.1.self_attention.linear_qkv.weight", 2), "[0:3, 0:2]");
  EXPECT_EQ(on(made, "output_layer.bias", 3), "[4:8]");
  for (const char* name : {"lm_head.dense.weight", "pooler.dense.bias", "binary_head.weight"}) {
    EXPECT_EQ(on(made, name, 0), "-");
    EXPECT_NE(on(made, name, 2), "-");
  }
}

TEST(Layouts, KeepTheNumbersOfTheirSizesInTheirText) {
  const Layout plain = builtin_layout("megatron-gpt").value();
  const ConfigNumber config = [](std::string_view key) {
    return key == "vocab_size" ? std::optional<std::int64_t>(13) : std::nullopt;
  };
  const Layout sized = plain.with_sizes({{"divisor", 4}}, config).value();
  EXPECT_THAT(sized.text(), HasSubstr("\nvalues: {vocab: 13, divisor: 4, "));
  const Layout again = parse_layout(sized.text(), "x").value();
  EXPECT_EQ(again.rules().sizes, sized.rules().sizes);
  const Layout other = again.with_sizes({{"vocab", 14}}, config).value();
  EXPECT_THAT(other.text(), HasSubstr("\nvalues: {vocab: 14, divisor: 4, "));
  EXPECT_TRUE(parse_layout(other.text(), "x"));
}

TEST(Layouts, RefuseZeroWithoutAnAxisForIt) {
  EXPECT_THAT(parse_layout("meshes: {d: [tp]}\nzero: 1\ntensors: [{match: '*'}]", "x").error().message(),
              HasSubstr("line 2: 'zero' needs an axis dp or edp in every mesh, 'd' has: tp"));
  const Layout once = builtin_layout("replicated").value().with_zero(1).value();
  EXPECT_EQ(once.name(), "replicated+zero1");
  EXPECT_THAT(once.with_zero(2).error().message(), HasSubstr("says 'zero: 1' itself"));
}

}  // namespace
}  // namespace tenplex
