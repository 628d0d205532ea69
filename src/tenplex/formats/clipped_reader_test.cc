// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/clipped_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace tenplex {
namespace {

using ::testing::ElementsAre;

/// Chunk i lies at byte 100·i with strides of its own, and has an item with the checksum i.
ChunkLocation location(std::size_t index) {
  const auto number = static_cast<std::int64_t>(index);
  return {100 * number, {7 + number, 9}, CheckedRange{100 * number, 50, static_cast<std::uint32_t>(index)}};
}

class PlacedReader : public CheckpointReader {
 public:
  explicit PlacedReader(std::vector<TensorInfo> tensors) {
    info_.tensors = std::move(tensors);
    info_.files = {"file"};
  }

  void add(int tensor, const Box& box) { info_.chunks.add({TensorId(tensor), DeviceId(0), 0, 0, box}); }

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t index) const override {
    return not_found(info_.files.at(static_cast<std::size_t>(index)));
  }
  Result<ChunkLocation> locate(std::size_t index) const override { return location(index); }
  Result<std::string> read_extra_file(const ExtraFile& extra) const override { return "bytes of " + extra.path; }

  CheckpointInfo info_;
};

/// Tensors "0", "1", … of these shapes.
std::vector<TensorInfo> shaped(std::initializer_list<Dims> shapes) {
  std::vector<TensorInfo> tensors;
  for (const Dims& shape : shapes) tensors.push_back({std::to_string(tensors.size()), DType::kInt32, shape});
  return tensors;
}

/// "2: 1[12:13, 0:2]" for every chunk: the stored chunk that it is, its tensor and its box.
std::vector<std::string> places_of(const CheckpointReader& reader) {
  std::vector<std::string> texts;
  for (std::size_t index = 0; index < reader.info().chunks.size(); ++index) {
    const Chunk chunk = reader.info().chunks[index];
    const ChunkLocation found = reader.locate(index).value();
    const std::size_t stored = found.checked->crc32;
    EXPECT_EQ(found.offset_bytes, location(stored).offset_bytes);
    EXPECT_EQ(found.strides, location(stored).strides);
    texts.push_back(std::to_string(stored) + ": " + reader.info().tensors[chunk.tensor.index()].name +
                    to_string(chunk.box));
  }
  return texts;
}

TEST(Clip, CutsChunksAndDropsThoseInThePadding) {
  auto reader = std::make_unique<PlacedReader>(shaped({{16, 2}, {16, 2}}));
  for (const int tensor : {0, 1}) {
    reader->add(tensor, {{14, 0}, {2, 2}});
    reader->add(tensor, {{0, 0}, {12, 2}});
    reader->add(tensor, {{12, 0}, {2, 2}});
  }
  const auto clipped = clip(std::move(reader), shaped({{13, 2}, {16, 2}}));
  ASSERT_TRUE(clipped) << clipped.error().to_string();
  EXPECT_THAT(places_of(**clipped), ElementsAre("1: 0[0:12, 0:2]", "2: 0[12:13, 0:2]", "3: 1[14:16, 0:2]",
                                                "4: 1[0:12, 0:2]", "5: 1[12:14, 0:2]"));
  EXPECT_EQ((*clipped)->info().tensors, shaped({{13, 2}, {16, 2}}));
  EXPECT_EQ((*clipped)->info().clipped_tensors, 1);
  EXPECT_EQ((*clipped)->read_extra_file({"x", 1}).value(), "bytes of x");
  EXPECT_EQ((*clipped)->file(0).error().message(), "file");
}

TEST(Clip, KeepsAChunkThatEndsWithTheData) {
  auto reader = std::make_unique<PlacedReader>(shaped({{16, 2}}));
  reader->add(0, {{0, 0}, {12, 2}});
  reader->add(0, {{12, 0}, {4, 2}});
  const auto clipped = clip(std::move(reader), shaped({{12, 2}}));
  ASSERT_TRUE(clipped) << clipped.error().to_string();
  EXPECT_THAT(places_of(**clipped), ElementsAre("0: 0[0:12, 0:2]"));
}

TEST(Clip, CutsSeveralDimensions) {
  auto reader = std::make_unique<PlacedReader>(shaped({{8, 8}}));
  for (const std::int64_t row : {0, 4})
    for (const std::int64_t column : {0, 4}) reader->add(0, {{row, column}, {4, 4}});
  const auto clipped = clip(std::move(reader), shaped({{5, 3}}));
  ASSERT_TRUE(clipped) << clipped.error().to_string();
  EXPECT_THAT(places_of(**clipped), ElementsAre("0: 0[0:4, 0:3]", "2: 0[4:5, 0:3]"));
}

TEST(Clip, GivesTheReaderBackWhereNothingIsSmaller) {
  auto reader = std::make_unique<PlacedReader>(shaped({{16, 2}}));
  const CheckpointReader* const stored = reader.get();
  const auto clipped = clip(std::move(reader), shaped({{16, 2}}));
  ASSERT_TRUE(clipped) << clipped.error().to_string();
  EXPECT_EQ(clipped->get(), stored);
}

TEST(Clip, DoesNotHideAChunkOutsideOfItsTensor) {
  auto reader = std::make_unique<PlacedReader>(shaped({{16, 2}}));
  reader->add(0, {{0, 0}, {17, 2}});
  const auto clipped = clip(std::move(reader), shaped({{13, 2}}));
  ASSERT_FALSE(clipped);
  EXPECT_EQ(clipped.error().to_string(), "tensor '0' of shape [16, 2]: stored chunk [0:17, 0:2] lies outside");
}

/// The strides that views of a tensor [2, 8] have after it is clipped to [2, 5]; `others` are in the tree as well.
Dims strides_after(const Dims& strides, const std::vector<TensorView>& others, bool clip_second = true) {
  auto reader = std::make_unique<PlacedReader>(shaped({{2, 8}, {2, 8}}));
  for (const int tensor : {0, 1}) reader->add(tensor, {{0, 0}, {2, 8}});
  StateGraph& graph = reader->info_.state;
  std::vector<NodeId> nodes = {graph.add_tensor({TensorId(0), 0, 0, strides})};
  for (const TensorView& other : others) nodes.push_back(graph.add_tensor(other));
  graph.root = graph.add_list(nodes);
  const auto clipped = clip(std::move(reader), shaped({{2, 5}, {2, clip_second ? 5 : 8}}));
  return clipped.value()->info().state.view(nodes[0]).strides;
}

TEST(Clip, MakesNamesOfOneTensorThatAreClippedDifferentlyTwoObjectsOfOneStorage) {
  auto reader = std::make_unique<PlacedReader>(shaped({{8, 2}, {8, 2}, {8, 2}}));
  for (const int tensor : {0, 1, 2}) reader->add(tensor, {{0, 0}, {8, 2}});
  StateGraph& graph = reader->info_.state;
  std::vector<NodeId> nodes;
  for (const int tensor : {0, 1, 2}) {
    TensorView view{TensorId(tensor), 4, 0, {2, 1}};
    view.object = 1;
    nodes.push_back(graph.add_tensor(view));
  }
  graph.root = graph.add_list(nodes);
  const auto clipped = clip(std::move(reader), shaped({{8, 1}, {8, 2}, {8, 2}}));
  ASSERT_TRUE(clipped) << clipped.error().to_string();
  const StateGraph& after = (*clipped)->info().state;
  EXPECT_EQ(after.view(nodes[0]).object, 0U);
  EXPECT_NE(after.view(nodes[1]).object, 0U);
  EXPECT_EQ(after.view(nodes[1]).object, after.view(nodes[2]).object);
  for (const NodeId node : nodes) {
    EXPECT_EQ(after.view(node).storage, 4U);
    EXPECT_EQ(after.view(node).strides, (Dims{2, 1}));
  }
}

TEST(Clip, DropsAliasesOfAnotherShape) {
  auto reader = std::make_unique<PlacedReader>(shaped({{8, 2}, {8, 2}, {8, 2}}));
  for (const int tensor : {0, 1, 2}) reader->add(tensor, {{0, 0}, {8, 2}});
  reader->info_.aliases = {{TensorId(1), TensorId(0)}, {TensorId(2), TensorId(0)}};
  const auto clipped = clip(std::move(reader), shaped({{8, 1}, {8, 2}, {8, 1}}));
  ASSERT_TRUE(clipped) << clipped.error().to_string();
  EXPECT_THAT((*clipped)->info().aliases, ElementsAre(std::pair(TensorId(2), TensorId(0))));
}

TEST(Clip, MakesViewsRowMajorAgainUnlessTheStorageIsShared) {
  EXPECT_EQ(strides_after({8, 1}, {}), (Dims{5, 1}));
  EXPECT_EQ(strides_after({1, 2}, {}), (Dims{1, 2}));  // transposed
  EXPECT_EQ(strides_after({8, 1}, {{TensorId(1), 7, 0, {8, 1}}}), (Dims{5, 1}));
  EXPECT_EQ(strides_after({8, 1}, {{TensorId(1), 0, 0, {8, 1}}}), (Dims{5, 1}));  // tied
  EXPECT_EQ(strides_after({8, 1}, {{TensorId(1), 0, 0, {8, 1}}}, false), (Dims{8, 1}));
  EXPECT_EQ(strides_after({8, 1}, {{TensorId(1), 0, 8, {8, 1}}}), (Dims{8, 1}));
  EXPECT_EQ(strides_after({8, 1}, {{TensorId(9), 0, 8, {8, 1}}}), (Dims{5, 1}));  // of no tensor
}

}  // namespace
}  // namespace tenplex
