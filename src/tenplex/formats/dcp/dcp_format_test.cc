// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/dcp_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

const auto kGolden = std::filesystem::path("tests/golden/v1/dcp");

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// A committed folder, in memory.
void put_golden(MemoryFileSystem& files, const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(kGolden / name)) {
    files.put_file("/" + name + "/" + entry.path().filename().string(), bytes_of(entry.path()));
  }
}

std::unique_ptr<CheckpointReader> open_or_die(FileSystem& files, const std::string& path) {
  auto reader = open_dcp(files, path, {});
  EXPECT_TRUE(reader) << reader.error().to_string();
  return reader ? std::move(*reader) : nullptr;
}

// The elements of a chunk in row-major order, read where locate() says; its CRC holds.
template <typename T>
std::vector<T> elements_of(const CheckpointReader& reader, std::size_t index) {
  const auto location = reader.locate(index);
  EXPECT_TRUE(location) << location.error().to_string();
  const Chunk chunk = reader.info().chunks[index];
  const ByteSource& file = **reader.file(chunk.file);
  if (location->checked) {
    const auto all = read_string(file, location->checked->begin, location->checked->size);
    EXPECT_EQ(crc32(0, as_bytes(*all)), location->checked->crc32);
  }
  std::vector<T> elements;
  const std::int64_t count = volume(chunk.box);
  const Dims own = row_major_strides(chunk.box.extent);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = location->offset_bytes;
    std::int64_t rest = i;
    for (int dim = 0; dim < own.rank(); ++dim) {
      at += rest / own[dim] * location->strides[dim] * static_cast<std::int64_t>(sizeof(T));
      rest %= own[dim];
    }
    const auto text = read_string(file, at, sizeof(T));
    T value{};
    std::memcpy(&value, text->data(), sizeof(T));
    elements.push_back(value);
  }
  return elements;
}

TEST(DcpReader, ReadsTheValuesOfBothPayloads) {
  for (const std::string name : {"sharded", "safetensors"}) {
    MemoryFileSystem files;
    put_golden(files, name);
    const auto reader = open_or_die(files, "/" + name);
    ASSERT_TRUE(reader);
    EXPECT_EQ(elements_of<float>(*reader, 0), (std::vector<float>{0.5, 1.5, 2.5, 3.5})) << name;
    EXPECT_EQ(elements_of<float>(*reader, 1), (std::vector<float>{4.5, 5.5})) << name;
    EXPECT_EQ(reader->locate(0)->checked.has_value(), name == "sharded");
  }
}

TEST(DcpReader, PutsObjectsAndTensorsBackIntoTheTree) {
  MemoryFileSystem files;
  put_golden(files, "sharded");
  const auto reader = open_or_die(files, "/sharded");
  ASSERT_TRUE(reader);
  const StateGraph& state = reader->info().state;
  StateGraph expected;
  TensorView view;
  view.strides = {2, 1};
  const NodeId model = expected.add_dict({expected.add_string("w"), expected.add_tensor(view)});
  expected.root =
      expected.add_dict({expected.add_string("model"), model, expected.add_string("step"), expected.add_int(7)});
  EXPECT_TRUE(equal(state, state.root, expected, expected.root));
}

TEST(DcpReader, ReadsStridedItemsAndScalars) {
  MemoryFileSystem files;
  put_golden(files, "strided");
  const auto reader = open_or_die(files, "/strided");
  ASSERT_TRUE(reader);
  // arange(6).reshape(2, 3).t(): stored with strides [1, 3].
  EXPECT_EQ(reader->locate(0)->strides, (Dims{1, 3}));
  EXPECT_EQ(elements_of<std::int16_t>(*reader, 0), (std::vector<std::int16_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(elements_of<std::uint16_t>(*reader, 2), (std::vector<std::uint16_t>{0x8000}));
  EXPECT_EQ(elements_of<std::int64_t>(*reader, 3), (std::vector<std::int64_t>{1, 2}));
}

TEST(DcpReader, RefusesAnItemThatIsNotWhatTheMetadataSay) {
  MemoryFileSystem files;
  put_golden(files, "sharded");
  // Both items have 1577 bytes, so the first chunk's file can hold the second one's item.
  const std::string second = bytes_of(kGolden / "sharded/__1_0.distcp").substr(1261, 1577);
  files.put_file("/sharded/__0_0.distcp", second);
  const auto reader = open_or_die(files, "/sharded");
  ASSERT_TRUE(reader);
  const auto location = reader->locate(0);
  ASSERT_FALSE(location);
  EXPECT_THAT(location.error().to_string(), HasSubstr("tensor 'model.w' chunk [0:2, 0:2]"));
  EXPECT_THAT(location.error().to_string(), HasSubstr("expected float32 [2, 2], the item has float32 [1, 2]"));
}

TEST(DcpReader, SaysThatASaveDidNotFinish) {
  for (const std::string name : {".metadata.tmp", "__0_0.distcp"}) {
    MemoryFileSystem files;
    files.put_file("/c/" + name, "x");
    EXPECT_TRUE(detect_dcp(files, "/c"));
    const auto reader = open_dcp(files, "/c", {});
    ASSERT_FALSE(reader);
    EXPECT_THAT(reader.error().to_string(), HasSubstr("incomplete: no .metadata, the save did not finish"));
  }
}

TEST(DcpReader, ExplainsAFolderThatEveryRankSavedForItself) {
  MemoryFileSystem files;
  files.put_file("/c/__0_0.distcp", "x");
  files.put_file("/c/__0.metadata", "x");
  const auto reader = open_dcp(files, "/c", {});
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code(), ErrorCode::kUnsupported);
}

TEST(DcpReader, OtherFoldersAreNotDetected) {
  MemoryFileSystem files;
  files.put_file("/c/model.safetensors", "x");
  EXPECT_FALSE(detect_dcp(files, "/c"));
  EXPECT_FALSE(detect_dcp(files, "/nothing"));
}

TEST(DcpReader, RefusesAFlippedByteOfADataFileOrFindsEveryChunkWhereItWas) {
  const std::string whole = bytes_of(kGolden / "sharded/__1_0.distcp");
  MemoryFileSystem files;
  put_golden(files, "sharded");
  std::vector<ChunkLocation> expected;
  const auto intact = open_or_die(files, "/sharded");
  for (const std::size_t chunk : {std::size_t{0}, std::size_t{1}}) expected.push_back(intact->locate(chunk).value());
  int refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    files.put_file("/sharded/__1_0.distcp", damaged);
    const auto reader = open_dcp(files, "/sharded", {});
    for (const std::size_t chunk : {std::size_t{0}, std::size_t{1}}) {
      const auto found = reader ? (*reader)->locate(chunk) : Result<ChunkLocation>(reader.error());
      if (found) {
        EXPECT_EQ(found->offset_bytes, expected[chunk].offset_bytes) << i;
        EXPECT_EQ(found->strides, expected[chunk].strides) << i;
      } else {
        EXPECT_FALSE(found.error().message().empty()) << i;
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
}

// Writes a folder into memory, whole tensors' bytes given.
void write_folder(MemoryFileSystem& files, const std::string& folder, CheckpointWriter& writer, const OutputPlan& plan,
                  const Collection& target, const std::vector<std::string>& tensors) {
  const auto write = [&](const OutputFile& file, std::int32_t index) {
    std::string content;
    std::vector<std::uint32_t> crcs;
    for (std::size_t i = 0; i < file.segments.size(); ++i) {
      const Segment& segment = file.segments[i];
      std::string bytes;
      if (segment.kind == Segment::Kind::kLiteral) {
        auto literal = writer.literal(index, i, index < 0 ? std::span<const std::uint32_t>() : std::span(crcs));
        ASSERT_TRUE(literal) << literal.error().to_string();
        bytes = *literal;
        crcs.push_back(0);
      } else {
        SubTensor shard;
        target.shard(segment.tensor, segment.shard, &shard);
        const TensorInfo& info = target.tensors()[segment.tensor.index()];
        const Box& box = shard.pieces[static_cast<std::size_t>(segment.piece)].box;
        // Rows only: the tests cut dimension 0.
        const std::int64_t row = box.rank() == 0 ? 0 : size_bytes(info) / std::max<std::int64_t>(info.shape[0], 1);
        const std::int64_t begin = box.rank() == 0 ? 0 : box.offset[0] * row;
        bytes = tensors[segment.tensor.index()].substr(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(segment.size_bytes));
        crcs.push_back(crc32(0, as_bytes(bytes)));
      }
      ASSERT_EQ(static_cast<std::int64_t>(bytes.size()), segment.size_bytes) << file.path << " segment " << i;
      content += bytes;
    }
    files.put_file(folder + "/" + file.path, content);
  };
  for (std::size_t i = 0; i < plan.files.size(); ++i) write(plan.files[i], static_cast<std::int32_t>(i));
  write(*plan.manifest, -1);
}

struct Written {
  CheckpointInfo source;
  std::unique_ptr<ExplicitCollection> target;
  std::vector<std::string> tensors;
};

// "w" [3, 2] float32 cut as rows 0–1 on device 0 and row 2 on device 1; "b" [] int64 on both; both under "model".
Written make_source() {
  Written made;
  made.source.tensors = {{"model.w", DType::kFloat32, {3, 2}}, {"model.b", DType::kInt64, {}}};
  made.tensors = {std::string("aaaabbbbccccddddeeeeffff"), std::string("12345678")};
  StateGraph& state = made.source.state;
  TensorView w;
  w.strides = {2, 1};
  TensorView b;
  b.tensor = TensorId(1);
  b.storage = 1;
  const NodeId model =
      state.add_dict({state.add_string("w"), state.add_tensor(w), state.add_string("b"), state.add_tensor(b)});
  state.root = state.add_dict({state.add_string("model"), model, state.add_string("step"), state.add_int(300)});
  ExplicitCollectionBuilder builder(made.source.tensors, 2, {});
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(0), {{0, 0}, {2, 2}}));
  EXPECT_TRUE(builder.add_box(DeviceId(1), TensorId(0), {{2, 0}, {1, 2}}));
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(1), {}));
  EXPECT_TRUE(builder.add_box(DeviceId(1), TensorId(1), {}));
  made.target = std::move(std::move(builder).finish()).value();
  return made;
}

std::unique_ptr<CheckpointReader> write_and_open(MemoryFileSystem& files, const Written& made) {
  const auto writer = make_dcp_writer();
  WriteRequest request;
  request.source = &made.source;
  request.target = made.target.get();
  request.layout = {"fsdp", "text", {{"dp", 2}}};
  auto plan = writer->prepare(request);
  EXPECT_TRUE(plan) << plan.error().to_string();
  if (!plan) return nullptr;
  write_folder(files, "/out", *writer, *plan, *made.target, made.tensors);
  return open_or_die(files, "/out");
}

TEST(DcpWriter, WritesWhatItsReaderReads) {
  const Written made = make_source();
  MemoryFileSystem files;
  const auto reader = write_and_open(files, made);
  ASSERT_TRUE(reader);
  const CheckpointInfo& info = reader->info();
  EXPECT_EQ(info.tensors, made.source.tensors);
  EXPECT_EQ(info.device_count, 2);
  EXPECT_TRUE(equal(info.state, info.state.root, made.source.state, made.source.state.root));
  ASSERT_TRUE(info.layout);
  EXPECT_EQ(info.layout->mesh, (std::vector<std::pair<std::string, std::int64_t>>{{"dp", 2}}));
  ASSERT_EQ(info.chunks.size(), 3U);
  EXPECT_EQ(info.chunks[1].box, (Box{{2, 0}, {1, 2}}));
  EXPECT_EQ(info.chunks[1].device, DeviceId(1));
  // The scalar is on both devices and is written once, where there are fewer bytes: "step" lies on device 0.
  EXPECT_EQ(info.chunks[2].device, DeviceId(1));
  EXPECT_EQ(elements_of<std::uint32_t>(*reader, 1), (std::vector<std::uint32_t>{0x65656565, 0x66666666}));
  EXPECT_TRUE(reader->locate(1)->checked.has_value());
}

TEST(DcpWriter, MakesTheSameBytesEveryTime) {
  const Written made = make_source();
  MemoryFileSystem first;
  MemoryFileSystem second;
  write_and_open(first, made);
  write_and_open(second, made);
  for (const std::string& name : first.files_below("/out")) {
    EXPECT_EQ(*first.content("/out/" + name), *second.content("/out/" + name)) << name;
  }
}

TEST(DcpWriter, BringsBackTreesThatDcpFlattens) {
  Written made = make_source();
  StateGraph& state = made.source.state;
  // An OrderedDict with an integer key and an empty dict beside it.
  ObjectParts ordered;
  ordered.callable = state.add_global("collections", "OrderedDict");
  ordered.arguments = state.add_tuple({});
  ordered.dict_items = {state.add_int(5), state.add_tuple({state.add_int(1), state.add_float(0.5)})};
  const NodeId object = state.add_object(ordered);
  const NodeId odd = state.add_string("odd");
  const NodeId none = state.add_string("none");
  const NodeId empty = state.add_dict({});
  for (const NodeId id : {odd, object, none, empty}) state[state.root].children.push_back(id);
  MemoryFileSystem files;
  const auto reader = write_and_open(files, made);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(equal(reader->info().state, reader->info().state.root, state, state.root));
}

TEST(DcpWriter, WritesTensorsThatAreOneOnlyOnce) {
  Written made = make_source();
  made.source.tensors = {{"a", DType::kFloat32, {3, 2}}, {"b", DType::kFloat32, {3, 2}}};
  made.tensors[1] = made.tensors[0];
  StateGraph state;
  TensorView a;
  a.strides = {2, 1};
  TensorView b = a;
  b.tensor = TensorId(1);
  state.root = state.add_dict({state.add_string("a"), state.add_tensor(a), state.add_string("b"), state.add_tensor(b)});
  made.source.state = state;
  ExplicitCollectionBuilder builder(made.source.tensors, 1, {});
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(0), {{0, 0}, {3, 2}}));
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(1), {{0, 0}, {3, 2}}));
  made.target = std::move(std::move(builder).finish()).value();
  MemoryFileSystem files;
  const auto reader = write_and_open(files, made);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->info().chunks[0].position, reader->info().chunks[1].position);
  const StateGraph& back = reader->info().state;
  const auto names = tensor_names(back);
  ASSERT_TRUE(names);
  EXPECT_EQ(back.view((*names)[0].first).storage, back.view((*names)[1].first).storage);
}

// "a" and "b" without a tree, "b" another name of "a"; rows 0–1 on device 0, row 2 on device 1, where `alike` both.
Written make_tied(bool alike) {
  Written made;
  made.source.tensors = {{"a", DType::kFloat32, {3, 2}}, {"b", DType::kFloat32, {3, 2}}};
  made.source.aliases = {{TensorId(1), TensorId(0)}};
  made.tensors = {"aaaabbbbccccddddeeeeffff", "aaaabbbbccccddddeeeeffff"};
  ExplicitCollectionBuilder builder(made.source.tensors, 2, {});
  for (const std::int32_t tensor : {0, 1}) {
    const std::int64_t rows = tensor == 0 || alike ? 2 : 1;
    EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(tensor), {{0, 0}, {rows, 2}}));
    EXPECT_TRUE(builder.add_box(DeviceId(1), TensorId(tensor), {{rows, 0}, {3 - rows, 2}}));
  }
  made.target = std::move(std::move(builder).finish()).value();
  return made;
}

TEST(DcpWriter, SaysWhichNamesAreOfOneTensorWithoutATree) {
  MemoryFileSystem files;
  const auto reader = write_and_open(files, make_tied(true));
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->info().state.root, kNoNode);
  EXPECT_EQ(reader->info().aliases, (std::vector{std::pair(TensorId(1), TensorId(0))}));
  EXPECT_TRUE(reader->info().problems.empty());
  EXPECT_EQ(elements_of<std::uint32_t>(*reader, 3), (std::vector<std::uint32_t>{0x65656565, 0x66666666}));
  MemoryFileSystem apart_files;
  const auto apart = write_and_open(apart_files, make_tied(false));
  ASSERT_TRUE(apart);
  EXPECT_TRUE(apart->info().aliases.empty());
  EXPECT_TRUE(apart->info().problems.empty());
}

TEST(DcpReader, PassesOverTiesThatTheFolderDoesNotBearOut) {
  MemoryFileSystem files;
  ASSERT_TRUE(write_and_open(files, make_tied(false)));
  dcp::SideFile lying;
  lying.of = checksum_of(*files.content("/out/.metadata"));
  lying.side.aliases = {{"b", "a"}};
  files.put_file("/out/tenplex.json", *dcp::encode_side_file(lying));
  const auto reader = open_or_die(files, "/out");
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->info().aliases.empty());
  EXPECT_THAT(reader->info().problems, ::testing::ElementsAre(HasSubstr("each has bytes of its own")));
}

TEST(DcpReader, PassesOverTheSideFileOfAnotherMetadata) {
  MemoryFileSystem files;
  ASSERT_TRUE(write_and_open(files, make_tied(true)));
  std::string metadata = *files.content("/out/.metadata");
  const std::size_t version = metadata.rfind("1.0.0");
  ASSERT_NE(version, std::string::npos);
  metadata[version] = '2';
  files.put_file("/out/.metadata", metadata);
  const auto reader = open_or_die(files, "/out");
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->info().aliases.empty());
  EXPECT_FALSE(reader->info().layout.has_value());
  EXPECT_THAT(reader->info().problems, ::testing::Contains(HasSubstr("it belongs to another .metadata")));
}

TEST(DcpReader, RefusesSharedNamesWithoutAState) {
  MemoryFileSystem files;
  ASSERT_TRUE(write_and_open(files, make_tied(false)));
  dcp::SideFile lying;
  lying.of = checksum_of(*files.content("/out/.metadata"));
  lying.repeated = {"b"};
  files.put_file("/out/tenplex.json", *dcp::encode_side_file(lying));
  EXPECT_EQ(open_dcp(files, "/out", {}).error().code(), ErrorCode::kCorrupt);
}

TEST(DcpSideFile, CarriesTextAndSecondNames) {
  dcp::SideFile side;
  side.of = "0123456789abcdef0123456789abcdef";
  side.metadata = {{"format", "pt"}, {"a", "\"\n"}, {"", ""}};
  side.repeated = {"b.x", "b.y"};
  TensorView view;
  view.storage = 3;
  view.offset = 8;
  view.strides = {4, 1};
  view.object = 2;
  side.inner_views = {{"t.1", view}};
  side.shared_nodes = {{{3, 1}, {1, 0}}, {{5}, {}}};
  side.side.aliases = {{"head", "embed"}, {"b", "a"}};
  const auto back = dcp::decode_side_file(*dcp::encode_side_file(side));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->of, side.of);
  EXPECT_EQ(back->metadata, side.metadata);
  EXPECT_EQ(back->repeated, side.repeated);
  ASSERT_EQ(back->inner_views.size(), 1U);
  EXPECT_EQ(back->inner_views[0].name, "t.1");
  EXPECT_EQ(back->inner_views[0].view, view);
  EXPECT_EQ(back->shared_nodes, side.shared_nodes);
  EXPECT_EQ(back->side.aliases, side.side.aliases);
  dcp::SideFile bad_name;
  bad_name.repeated = {"\xff"};
  EXPECT_EQ(dcp::encode_side_file(bad_name).error().code(), ErrorCode::kUnsupported);
  dcp::SideFile bad_alias;
  bad_alias.side.aliases = {{"a", "\xff"}};
  EXPECT_EQ(dcp::encode_side_file(bad_alias).error().code(), ErrorCode::kUnsupported);
}

TEST(DcpSideFile, NamesLaterLeavesOfANodeOnly) {
  StateGraph graph;
  const NodeId seven = graph.add_int(7);
  const auto with = [&](const char* key, NodeId node) { return graph.add_dict({graph.add_string(key), node}); };
  const NodeId a = graph.add_dict({graph.add_string("x"), seven, graph.add_string("y"), graph.add_int(8)});
  graph.root = graph.add_dict(
      {graph.add_string("a"), a, graph.add_string("b"), with("x", seven), graph.add_string("c"), with("x", seven)});
  const auto leaves = flatten(graph);
  ASSERT_TRUE(leaves);
  EXPECT_EQ(dcp::repeated_names(*leaves), (std::vector<std::string>{"b.x", "c.x"}));
}

TEST(DcpSideFile, ChecksItsChecksumAndVersion) {
  dcp::SideFile side;
  side.device_count = 4;
  side.layout = {"fsdp", "family: fsdp\n", {{"dp", 4}}};
  std::string text = *dcp::encode_side_file(side);
  const auto back = dcp::decode_side_file(text);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->device_count, 4);
  EXPECT_EQ(back->layout, side.layout);
  const std::size_t version = text.find("\"version\":1") + 10;  // a newer writer is no damage
  for (std::size_t k = 0; k + 1 < text.size(); ++k) {
    std::string damaged = text;
    damaged[k] ^= 4;
    EXPECT_EQ(dcp::decode_side_file(damaged).has_value(), k == version) << k;
  }
  std::string newer = text;
  newer.replace(newer.find("\"oldest_reader\":1"), 17, "\"oldest_reader\":9");
  const auto refused = dcp::decode_side_file(newer);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
  for (std::size_t size = 0; size + 2 < text.size(); ++size) EXPECT_FALSE(dcp::decode_side_file(text.substr(0, size)));
}

}  // namespace
}  // namespace tenplex
