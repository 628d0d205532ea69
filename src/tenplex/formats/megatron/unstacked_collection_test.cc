// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/unstacked_collection.h"

#include <gtest/gtest.h>

#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex::megatron {
namespace {

TEST(StackedDims, AreSaidByTheName) {
  EXPECT_EQ(stacked_dims("decoder.layers.mlp.linear_fc1.weight"), 1);
  EXPECT_EQ(stacked_dims("optimizer.state.exp_avg.decoder.layers.mlp.linear_fc1.weight"), 1);
  EXPECT_EQ(stacked_dims("decoder.layers.mlp.experts.experts.linear_fc1.weight"), 2);
  EXPECT_EQ(stacked_dims("decoder.layers.3.mlp.experts.experts.linear_fc1.weight"), 1);
  EXPECT_EQ(stacked_dims("decoder.layers.3.mlp.experts.experts.5.linear_fc1.weight_w"), 0);
  EXPECT_EQ(stacked_dims("decoder.layers.12.self_attention.linear_qkv.weight"), 0);
  EXPECT_EQ(stacked_dims("embedding.word_embeddings.weight"), 0);
  EXPECT_EQ(stacked_dims("undecoder.layers.x"), 0);
  EXPECT_EQ(stacked_dims("decoder.layers."), 0);
}

std::unique_ptr<Collection> make(const char* rules, const MeshSizes& mesh) {
  const std::vector<TensorInfo> tensors = {
      {"decoder.layers.mlp.experts.experts.linear_fc2.weight", DType::kFloat32, {4, 2, 3, 6}},
      {"output_layer.weight", DType::kFloat32, {4, 6}}};
  const auto layout = parse_layout(rules, "test");
  EXPECT_TRUE(layout) << layout.error().to_string();
  auto collection = RuleCollection::make(*layout, mesh, tensors);
  EXPECT_TRUE(collection) << collection.error().to_string();
  return std::move(*collection);
}

TEST(Unstacked, HasOnePiecePerLayerAndExpertAtItsPlaceInTheLocalArray) {
  const char* rules =
      "meshes: {dense: [tp, pp]}\n"
      "tensors:\n"
      "  - match: 'decoder.*'\n"
      "    slice: [{dim: 0, by: pp}, {dim: 3, by: tp}]\n"
      "  - match: '*'\n";
  const auto plain = make(rules, {{"tp", 2}, {"pp", 2}});
  const auto cut = unstacked(make(rules, {{"tp", 2}, {"pp", 2}}));
  SubTensor shard;
  SubTensor before;
  ASSERT_EQ(cut->shard_count(TensorId(0)), plain->shard_count(TensorId(0)));
  for (std::int64_t index = 0; index < cut->shard_count(TensorId(0)); ++index) {
    cut->shard(TensorId(0), index, &shard);
    plain->shard(TensorId(0), index, &before);
    EXPECT_EQ(shard.local_shape, before.local_shape);
    ASSERT_EQ(shard.pieces.size(), 4U);
    const Box& whole = before.pieces[0].box;
    for (std::int64_t piece = 0; piece < 4; ++piece) {
      const Piece& found = shard.pieces[static_cast<std::size_t>(piece)];
      EXPECT_EQ(found.box.offset, (Dims{whole.offset[0] + piece / 2, piece % 2, 0, whole.offset[3]}));
      EXPECT_EQ(found.box.extent, (Dims{1, 1, 3, 3}));
      EXPECT_EQ(found.local_offset, piece * 9);
      EXPECT_EQ(found.local_strides, before.pieces[0].local_strides);
    }
  }
  cut->shard(TensorId(1), 0, &shard);
  EXPECT_EQ(shard.pieces.size(), 1U);
  EXPECT_NE(cut->hash(), plain->hash());
  EXPECT_NE(cut->geometry_key(TensorId(0)), plain->geometry_key(TensorId(0)));
  EXPECT_EQ(cut->geometry_key(TensorId(1)), plain->geometry_key(TensorId(1)));
}

}  // namespace
}  // namespace tenplex::megatron
