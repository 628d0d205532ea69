// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/selected_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using Part = Selection::Part;

class Stored final : public CheckpointReader {
 public:
  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t) const override { return not_found("no file"); }
  Result<ChunkLocation> locate(std::size_t index) const override {
    return ChunkLocation{static_cast<std::int64_t>(100 * index), {1}, std::nullopt};
  }
  Result<std::string> read_extra_file(const ExtraFile&) const override { return not_found("no file"); }

  CheckpointInfo info_;
};

/// {"common": {"optimizer": {"lr": 1}, "step": 2}, "optimizer.state.m.w": tensor 0, "w": tensor 1, "r/shard_0_1": [3]}
std::unique_ptr<Stored> stored(bool with_tree) {
  auto reader = std::make_unique<Stored>();
  CheckpointInfo& info = reader->info_;
  info.has_common = true;
  info.tensors = {{"optimizer.state.m.w", DType::kFloat32, {4}}, {"w", DType::kBFloat16, {4}}};
  for (std::size_t t = 0; t < 2; ++t) info.chunks.add({TensorId(t), DeviceId(0), 0, 0, Box::whole({4})});
  if (!with_tree) return reader;
  StateGraph& graph = info.state;
  const auto text = [&](const char* key) { return graph.add_string(key); };
  const auto tensor = [&](std::size_t id) {
    return graph.add_tensor({.tensor = TensorId(id), .storage = static_cast<std::uint32_t>(id), .strides = {1}});
  };
  const NodeId optimizer = graph.add_dict({text("lr"), graph.add_int(1)});
  const NodeId common = graph.add_dict({text("optimizer"), optimizer, text("step"), graph.add_int(2)});
  graph.root = graph.add_dict({text("common"), common, text("optimizer.state.m.w"), tensor(0), text("w"), tensor(1),
                               text("r/shard_0_1"), graph.add_list({graph.add_int(3)})});
  return reader;
}

std::vector<std::string> leaves_of(const CheckpointInfo& info) {
  std::vector<std::string> names;
  const auto leaves = flatten(info.state);
  for (std::size_t leaf = 0; leaf < leaves->size(); ++leaf) names.push_back(leaves->name(leaf));
  return names;
}

TEST(Selection, IsPartsJoinedByCommas) {
  EXPECT_EQ(*parse_selection(""), Selection());
  EXPECT_EQ(*parse_selection("model"), (Selection{Part::kModel, false}));
  EXPECT_EQ(*parse_selection("tensors,optimizer"), (Selection{Part::kOptimizer, true}));
  for (const char* text : {"weights", "model,optimizer", "tensors,tensors", ",model", "model ,tensors"})
    EXPECT_FALSE(parse_selection(text)) << text;
}

TEST(Select, LeavesTheOptimizerOutOfTheModel) {
  const auto part = select(stored(true), {Part::kModel, false});
  ASSERT_TRUE(part) << part.error().to_string();
  const CheckpointInfo& info = (*part)->info();
  EXPECT_THAT(leaves_of(info), ElementsAre("common.step", "w", "r/shard_0_1"));
  ASSERT_EQ(info.tensors.size(), 1U);
  EXPECT_EQ(info.tensors[0].name, "w");
  ASSERT_EQ(info.chunks.size(), 1U);
  EXPECT_EQ(info.chunks[0].tensor, TensorId(0));
  EXPECT_EQ((*part)->locate(0)->offset_bytes, 100);
  EXPECT_EQ(info.state.view(find_item(info.state, info.state.root, "w")).tensor, TensorId(0));
}

TEST(Select, LeavesTheModelOutOfTheOptimizer) {
  const auto part = select(stored(true), {Part::kOptimizer, false});
  ASSERT_TRUE(part) << part.error().to_string();
  EXPECT_THAT(leaves_of((*part)->info()), ElementsAre("common.optimizer.lr", "optimizer.state.m.w"));
}

TEST(Select, HasNoTreeWithTensorsOnly) {
  const auto part = select(stored(true), {Part::kModel, true});
  ASSERT_TRUE(part) << part.error().to_string();
  EXPECT_EQ((*part)->info().state.root, kNoNode);
  ASSERT_EQ((*part)->info().tensors.size(), 1U);
  const auto all = select(stored(true), {Part::kAll, true});
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_EQ((*all)->info().tensors.size(), 2U);
}

TEST(Select, GoesByNamesWithoutATree) {
  const auto part = select(stored(false), {Part::kModel, false});
  ASSERT_TRUE(part) << part.error().to_string();
  EXPECT_EQ((*part)->info().tensors.size(), 1U);
}

}  // namespace
}  // namespace tenplex
