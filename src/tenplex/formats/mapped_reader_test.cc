// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/mapped_reader.h"
#include "tenplex/ptc/testing/tensor_infos.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::ElementsAre;

/// Chunk i starts at byte 1000·i, row-major in its own box, and lies in an item with the checksum i.
class FakeReader : public CheckpointReader {
 public:
  explicit FakeReader(std::vector<TensorInfo> tensors) {
    info_.tensors = std::move(tensors);
    info_.files = {"file"};
    info_.layout = LayoutNote{"cut", "", {}};
    info_.extra_files = {{"config.json", 2}};
  }

  void add(int tensor, const Box& box) {
    info_.chunks.add({TensorId(tensor), DeviceId(tensor), 0, static_cast<std::int64_t>(info_.chunks.size()), box});
  }
  void add_whole() {
    for (std::size_t tensor = 0; tensor < info_.tensors.size(); ++tensor)
      add(static_cast<int>(tensor), Box::whole(info_.tensors[tensor].shape));
  }

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t index) const override {
    return not_found(info_.files.at(static_cast<std::size_t>(index)));
  }
  Result<ChunkLocation> locate(std::size_t index) const override {
    const auto number = static_cast<std::int64_t>(index);
    return ChunkLocation{1000 * number, row_major_strides(info_.chunks[index].box.extent),
                         CheckedRange{1000 * number, 900, static_cast<std::uint32_t>(index)}};
  }
  Result<std::string> read_extra_file(const ExtraFile& extra) const override { return "bytes of " + extra.path; }
  Result<void> check_unchanged() const override { return corrupt("changed"); }

  CheckpointInfo info_;
};

/// "qkv[0:2, 0:3] at 1000 step [3, 1] in 1 of 0": box, first byte, strides, checksum of the item, device.
std::vector<std::string> chunks_of(const CheckpointReader& reader) {
  std::vector<std::string> texts;
  for (std::size_t index = 0; index < reader.info().chunks.size(); ++index) {
    const Chunk chunk = reader.info().chunks[index];
    const ChunkLocation found = reader.locate(index).value();
    texts.push_back(fmt::format("{}{} at {} step {} in {} of {}", reader.info().tensors[chunk.tensor.index()].name,
                                to_string(chunk.box), found.offset_bytes, to_string(found.strides),
                                found.checked->crc32, chunk.device.value()));
  }
  return texts;
}

std::unique_ptr<CheckpointReader> mapped(std::unique_ptr<FakeReader> reader, TensorMap map) {
  const auto checked = check_map(map, reader->info_.tensors);
  EXPECT_TRUE(checked) << checked.error().to_string();
  auto made = map_checkpoint(std::move(reader), std::move(map));
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(made).value();
}

/// q [4, 3] and k [2, 3] become qk [6, 3], for each of two groups two rows of q and one of k.
TensorMap grouped() {
  return {{f32("qk", {6, 3})},
          {{TensorId(0), {{0, 0}, {2, 3}}, {{0, 0}, {2, 3}}, {0, 1}},
           {TensorId(0), {{2, 0}, {2, 3}}, {{3, 0}, {2, 3}}, {0, 1}},
           {TensorId(1), {{0, 0}, {1, 3}}, {{2, 0}, {1, 3}}, {0, 1}},
           {TensorId(1), {{1, 0}, {1, 3}}, {{5, 0}, {1, 3}}, {0, 1}}},
          {0, 4}};
}

TEST(MapCheckpoint, CutsChunksAtPieces) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("q", {4, 3}), f32("k", {2, 3})});
  reader->add(0, {{1, 0}, {3, 3}});  // rows 1, 2 and 3: one of the first group, two of the second
  reader->add(1, {{0, 0}, {2, 2}});
  reader->add(0, {{0, 0}, {1, 3}});
  reader->add(1, {{0, 2}, {2, 1}});
  const auto made = mapped(std::move(reader), grouped());
  EXPECT_THAT(chunks_of(*made),
              ElementsAre("qk[1:2, 0:3] at 0 step [3, 1] in 0 of 0", "qk[3:5, 0:3] at 12 step [3, 1] in 0 of 0",
                          "qk[2:3, 0:2] at 1000 step [2, 1] in 1 of 1", "qk[5:6, 0:2] at 1008 step [2, 1] in 1 of 1",
                          "qk[0:1, 0:3] at 2000 step [3, 1] in 2 of 0", "qk[2:3, 2:3] at 3000 step [1, 1] in 3 of 1",
                          "qk[5:6, 2:3] at 3004 step [1, 1] in 3 of 1"));
}

TEST(MapCheckpoint, KeepsWhatIsBesideTheTensors) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("q", {4, 3}), f32("k", {2, 3})});
  reader->add_whole();
  const auto made = mapped(std::move(reader), grouped());
  EXPECT_THAT(made->info().tensors, ElementsAre(f32("qk", {6, 3})));
  EXPECT_FALSE(made->info().layout);
  EXPECT_EQ(made->read_extra_file(made->info().extra_files.at(0)).value(), "bytes of config.json");
  EXPECT_EQ(made->file(0).error().message(), "file");
  EXPECT_EQ(made->check_unchanged().error().message(), "changed");
}

TEST(MapCheckpoint, TurnsAndStacksByStrides) {
  // w.0 [2, 3] and w.1 [2, 3] become w [2, 3, 2]: stacked and transposed.
  auto reader = std::make_unique<FakeReader>(std::vector{f32("w.0", {2, 3}), f32("w.1", {2, 3})});
  reader->add_whole();
  const auto made = mapped(std::move(reader), {{f32("w", {2, 3, 2})},
                                               {{TensorId(0), {{0, 0}, {2, 3}}, {{0, 0, 0}, {1, 3, 2}}, {-1, 1, 0}},
                                                {TensorId(1), {{0, 0}, {2, 3}}, {{1, 0, 0}, {1, 3, 2}}, {-1, 1, 0}}},
                                               {0, 2}});
  EXPECT_THAT(chunks_of(*made), ElementsAre("w[0:1, 0:3, 0:2] at 0 step [1, 1, 3] in 0 of 0",
                                            "w[1:2, 0:3, 0:2] at 1000 step [1, 1, 3] in 1 of 1"));
}

TEST(MapCheckpoint, TakesAStackApart) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("w", {3, 2})});
  reader->add(0, {{1, 0}, {2, 2}});
  reader->add(0, {{0, 0}, {1, 2}});
  const auto made = mapped(std::move(reader), {{f32("0", {2}), f32("1", {2}), f32("2", {2})},
                                               {{TensorId(0), {{0, 0}, {1, 2}}, {{0}, {2}}, {1}},
                                                {TensorId(0), {{1, 0}, {1, 2}}, {{0}, {2}}, {1}},
                                                {TensorId(0), {{2, 0}, {1, 2}}, {{0}, {2}}, {1}}},
                                               {0, 1, 2, 3}});
  EXPECT_THAT(chunks_of(*made), ElementsAre("1[0:2] at 0 step [1] in 0 of 0", "2[0:2] at 8 step [1] in 0 of 0",
                                            "0[0:2] at 1000 step [1] in 1 of 0"));
}

TEST(MapCheckpoint, RenamesScalarsAndTies) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("a", {2}), f32("s", {}), f32("b", {2})});
  reader->add_whole();
  reader->info_.aliases = {{TensorId(2), TensorId(0)}};
  const auto made = mapped(std::move(reader), {{f32("z", {2}), f32("t", {}), f32("y", {2})},
                                               {{TensorId(2), {{0}, {2}}, {{0}, {2}}, {0}},
                                                {TensorId(1), {}, {}, {}},
                                                {TensorId(0), {{0}, {2}}, {{0}, {2}}, {0}}},
                                               {0, 1, 2, 3}});
  EXPECT_THAT(chunks_of(*made), ElementsAre("y[0:2] at 0 step [1] in 0 of 0", "t[] at 1000 step [] in 1 of 1",
                                            "z[0:2] at 2000 step [1] in 2 of 2"));
  EXPECT_THAT(made->info().aliases, ElementsAre(std::pair(TensorId(2), TensorId(0))));
  EXPECT_THAT(made->info().problems, ElementsAre());
}

TEST(MapCheckpoint, SaysWhichTieIsLost) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("a", {2}), f32("b", {2})});
  reader->add_whole();
  reader->info_.aliases = {{TensorId(1), TensorId(0)}};
  const auto made = mapped(std::move(reader),
                           {{f32("ab", {4})},
                            {{TensorId(0), {{0}, {2}}, {{0}, {2}}, {0}}, {TensorId(1), {{0}, {2}}, {{2}, {2}}, {0}}},
                            {0, 2}});
  EXPECT_THAT(made->info().aliases, ElementsAre());
  EXPECT_THAT(made->info().problems, ElementsAre("'a' and 'b' are tied, what becomes of them is not"));
}

TEST(MapCheckpoint, CountsSubByteElementsInBytes) {
  const auto f4 = [](const char* name, const Dims& shape) { return TensorInfo{name, DType::kFloat4E2M1FN, shape}; };
  auto reader = std::make_unique<FakeReader>(std::vector{f4("ab", {4, 6})});
  reader->add_whole();
  const auto made = mapped(std::move(reader), {{f4("a", {1, 6}), f4("b", {3, 6})},
                                               {{TensorId(0), {{0, 0}, {1, 6}}, {{0, 0}, {1, 6}}, {0, 1}},
                                                {TensorId(0), {{1, 0}, {3, 6}}, {{0, 0}, {3, 6}}, {0, 1}}},
                                               {0, 1, 2}});
  EXPECT_THAT(chunks_of(*made),
              ElementsAre("a[0:1, 0:6] at 0 step [6, 1] in 0 of 0", "b[0:3, 0:6] at 3 step [6, 1] in 0 of 0"));
}

TEST(MapCheckpoint, DoesNotHideAChunkOutsideOfItsTensor) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("q", {4, 3}), f32("k", {2, 3})});
  reader->add(0, {{0, 0}, {5, 3}});
  const auto made = map_checkpoint(std::move(reader), grouped());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().to_string(), "tensor 'q' of shape [4, 3]: stored chunk [0:5, 0:3] lies outside");
}

TensorMap renamed_pair() {
  return {{f32("y", {2}), f32("z", {2})},
          {{TensorId(0), {{0}, {2}}, {{0}, {2}}, {0}}, {TensorId(1), {{0}, {2}}, {{0}, {2}}, {0}}},
          {0, 1, 2}};
}

/// A checkpoint of two tensors [2] with a tree {"a": tensor 0, "in": {"b": `second`}}.
std::unique_ptr<FakeReader> with_tree(const TensorView& second, bool add_step = false) {
  auto reader = std::make_unique<FakeReader>(std::vector{f32("a", {2}), f32("in.b", {2})});
  reader->add_whole();
  StateGraph& graph = reader->info_.state;
  const NodeId inner = graph.add_dict({graph.add_string("b"), graph.add_tensor(second)});
  std::vector<NodeId> items = {graph.add_string("a"), graph.add_tensor({TensorId(0), 0, 0, {1}}),
                               graph.add_string("in"), inner};
  if (add_step) {
    items.push_back(graph.add_string("step"));
    items.push_back(graph.add_int(7));
  }
  graph.root = graph.add_dict(items);
  return reader;
}

TEST(MapCheckpoint, MakesATreeOfTensorsFlat) {
  const auto made = mapped(with_tree({TensorId(1), 1, 0, {1}}), renamed_pair());
  EXPECT_EQ(made->info().state.root, kNoNode);
  EXPECT_THAT(made->info().aliases, ElementsAre());
  EXPECT_THAT(made->info().problems, ElementsAre());
}

TEST(MapCheckpoint, KeepsTheTiesOfATree) {
  const auto made = mapped(with_tree({TensorId(1), 0, 0, {1}}), renamed_pair());
  EXPECT_THAT(made->info().aliases, ElementsAre(std::pair(TensorId(1), TensorId(0))));
}

TEST(MapCheckpoint, RefusesTreesThatNamesDoNotTell) {
  EXPECT_EQ(map_checkpoint(with_tree({TensorId(1), 1, 0, {1}}, true), renamed_pair()).error().to_string(),
            "object 'step' has no place among tensors with other names");
  EXPECT_EQ(map_checkpoint(with_tree({TensorId(0), 0, 0, {1}}), renamed_pair()).error().to_string(),
            "'in.b' is one object with 'a': it cannot be given another name");
}

}  // namespace
}  // namespace tenplex
