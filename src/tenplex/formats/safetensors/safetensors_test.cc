// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/safetensors/header.h"
#include "tenplex/formats/safetensors/natural_order.h"
#include "tenplex/formats/safetensors/rank_folder.h"
#include "tenplex/formats/safetensors/safetensors_format.h"
#include "tenplex/formats/testing/carry_out.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"

namespace tenplex {
namespace {

using Contents = std::map<std::string, std::string>;

struct Target {
  CheckpointInfo source;
  std::unique_ptr<ExplicitCollection> collection;
  std::vector<std::string> whole;
};

/// "w" uint8 [4, 2] with the bytes "abcdefgh", "s" int16 [] with "xy".
std::vector<TensorInfo> two_tensors() { return {{"w", DType::kUInt8, {4, 2}}, {"s", DType::kInt16, {}}}; }

Target whole_target() {
  Target target;
  target.source.tensors = two_tensors();
  ExplicitCollectionBuilder builder(two_tensors(), 1, {});
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(0), Box::whole({4, 2})).has_value());
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(1), Box::whole({})).has_value());
  target.collection = std::move(builder).finish().value();
  target.whole = {"abcdefgh", "xy"};
  return target;
}

/// Rows 0–2 of "w" on device 0, row 3 on device 1; "s" on both.
Target cut_target() {
  Target target = whole_target();
  ExplicitCollectionBuilder builder(two_tensors(), 2, {});
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(0), {{0, 0}, {3, 2}}).has_value());
  EXPECT_TRUE(builder.add_box(DeviceId(1), TensorId(0), {{3, 0}, {1, 2}}).has_value());
  for (int device = 0; device < 2; ++device)
    EXPECT_TRUE(builder.add_box(DeviceId(device), TensorId(1), Box::whole({})).has_value());
  target.collection = std::move(builder).finish().value();
  return target;
}

Result<Contents> write(const Target& target, const std::string& objects_folder = "",
                       const std::vector<std::string>& extra = {}) {
  const auto writer = safetensors_format().make_writer();
  WriteRequest request;
  request.source = &target.source;
  request.target = target.collection.get();
  request.layout = {"fsdp", "family: fsdp\n", {{"fsdp", 2}}};
  request.objects_folder = objects_folder;
  TENPLEX_ASSIGN_OR_RETURN(const OutputPlan plan, writer->prepare(request));
  return carry_out(plan, *writer, *target.collection, target.whole, extra);
}

void put(MemoryFileSystem* files, const Contents& contents) {
  for (const auto& [path, content] : contents) {
    if (path.starts_with("objects:")) {
      files->put_file("/objects/" + path.substr(8), content);
    } else {
      files->put_file(path.empty() ? "/ck" : "/ck/" + path, content);
    }
  }
}

Result<std::unique_ptr<CheckpointReader>> open(MemoryFileSystem* files, const std::string& objects = "") {
  ReadOptions options;
  options.objects_folder = objects;
  return open_checkpoint(*files, "/ck", options);
}

/// The elements of a chunk, gathered by its strides.
std::string chunk_bytes(const CheckpointReader& reader, std::size_t index) {
  const Chunk chunk = reader.info().chunks[index];
  const ChunkLocation location = reader.locate(index).value();
  const std::int64_t width = size_bytes(reader.info().tensors[chunk.tensor.index()].dtype);
  std::string bytes;
  for (std::int64_t k = 0; k < volume(chunk.box); ++k) {
    std::int64_t at = 0;
    std::int64_t rest = k;
    for (int dim = chunk.box.rank(); dim-- > 0; rest /= chunk.box.extent[dim])
      at += rest % chunk.box.extent[dim] * location.strides[dim];
    bytes += read_string(**reader.file(chunk.file), location.offset_bytes + at * width, width).value();
  }
  return bytes;
}

TEST(SafetensorsFile, HoldsWiderElementsFirstAndReadsBack) {
  const Target target = whole_target();
  const auto contents = write(target);
  ASSERT_TRUE(contents.has_value()) << contents.error().to_string();
  ASSERT_EQ(contents->size(), 1U);
  EXPECT_EQ(contents->at("").substr(contents->at("").size() - 10), "xyabcdefgh");
  MemoryFileSystem files;
  put(&files, *contents);
  const auto reader = open(&files);
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  const CheckpointInfo& info = (*reader)->info();
  EXPECT_EQ(info.format, "safetensors");
  EXPECT_EQ(info.device_count, 1);
  EXPECT_EQ(info.state.root, kNoNode);
  ASSERT_EQ(info.tensors.size(), 2U);
  EXPECT_EQ(info.tensors[0].name, "s");
  EXPECT_EQ(chunk_bytes(**reader, 0), "xy");
  EXPECT_EQ(chunk_bytes(**reader, 1), "abcdefgh");
  EXPECT_EQ(info.metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
}

TEST(SafetensorsFile, StoresIdenticalViewsOnceAndOthersInFull) {
  Target target;
  target.source.tensors = {{"a", DType::kUInt8, {4}}, {"tied", DType::kUInt8, {4}}, {"tail", DType::kUInt8, {2}}};
  StateGraph& graph = target.source.state;
  graph.root = graph.add_dict({graph.add_string("a"), graph.add_tensor({TensorId(0), 1, 0, {1}}),
                               graph.add_string("tied"), graph.add_tensor({TensorId(1), 1, 0, {1}}),
                               graph.add_string("tail"), graph.add_tensor({TensorId(2), 1, 2, {1}})});
  ExplicitCollectionBuilder builder(target.source.tensors, 1, {});
  for (std::size_t tensor = 0; tensor < 3; ++tensor)
    ASSERT_TRUE(builder.add_box(DeviceId(0), TensorId(tensor), Box::whole(target.source.tensors[tensor].shape)));
  target.collection = std::move(builder).finish().value();
  target.whole = {"abcd", "abcd", "cd"};
  const auto contents = write(target);
  ASSERT_TRUE(contents.has_value()) << contents.error().to_string();
  EXPECT_TRUE(contents->at("").ends_with("abcdcd"));
  MemoryFileSystem files;
  put(&files, *contents);
  const auto reader = open(&files);
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  const CheckpointInfo& info = (*reader)->info();
  ASSERT_EQ(info.tensors.size(), 3U);
  EXPECT_EQ(info.tensors[2], (TensorInfo{"tied", DType::kUInt8, {4}}));
  for (std::size_t chunk = 0; chunk < info.chunks.size(); ++chunk)
    EXPECT_EQ(chunk_bytes(**reader, chunk), info.chunks[chunk].tensor == TensorId(1) ? "cd" : "abcd");
  EXPECT_TRUE(equal(graph, graph.root, info.state, info.state.root));
  const auto& items = info.state[info.state.root].children;
  EXPECT_EQ(info.state.view(items[1]).storage, info.state.view(items[5]).storage);
  EXPECT_EQ(info.state.view(items[5]).offset, 2);
  EXPECT_TRUE(info.problems.empty());
}

TEST(SafetensorsFile, NeedsAFolderForOpaqueObjectsAndExtraFiles) {
  Target target = whole_target();
  target.source.extra_files = {{"config.json", 2}};
  StateGraph& graph = target.source.state;
  ObjectParts parts;
  parts.callable = graph.add_global("lib", "Thing");
  parts.arguments = graph.add_tuple({});
  graph.root =
      graph.add_dict({graph.add_string("w"), graph.add_tensor({TensorId(0), 0, 0, {2, 1}}), graph.add_string("s"),
                      graph.add_tensor({TensorId(1), 1, 0, {}}), graph.add_string("o"), graph.add_object(parts)});
  const auto refused = write(target);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("config.json"), std::string::npos);
  EXPECT_NE(refused.error().message().find("--objects DIR"), std::string::npos);
  const auto contents = write(target, "/objects", {"{}"});
  ASSERT_TRUE(contents.has_value()) << contents.error().to_string();
  EXPECT_EQ(contents->at("objects:config.json"), "{}");
  EXPECT_TRUE(contents->contains("objects:object-00000.pkl"));
  MemoryFileSystem files;
  put(&files, *contents);
  EXPECT_NE(open(&files).error().to_string().find("--objects DIR"), std::string::npos);
  const auto reader = open(&files, "/objects");
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  const CheckpointInfo& info = (*reader)->info();
  EXPECT_TRUE(equal(graph, graph.root, info.state, info.state.root));
  ASSERT_EQ(info.extra_files.size(), 1U);
  EXPECT_EQ((*reader)->read_extra_file(info.extra_files[0]).value(), "{}");
}

TEST(SafetensorsFolder, HasOneFilePerDeviceAndReadsBackAsItWasCut) {
  const Target target = cut_target();
  const auto contents = write(target);
  ASSERT_TRUE(contents.has_value()) << contents.error().to_string();
  EXPECT_TRUE(contents->at("device-00000-of-00002.safetensors").ends_with("xyabcdef"));
  EXPECT_TRUE(contents->at("device-00001-of-00002.safetensors").ends_with("xygh"));
  MemoryFileSystem files;
  put(&files, *contents);
  const auto reader = open(&files);
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  const CheckpointInfo& info = (*reader)->info();
  EXPECT_EQ(info.device_count, 2);
  EXPECT_EQ(info.layout, (LayoutNote{"fsdp", "family: fsdp\n", {{"fsdp", 2}}}));
  EXPECT_EQ(info.tensors, two_tensors());
  ASSERT_EQ(info.chunks.size(), 4U);
  EXPECT_EQ(chunk_bytes(**reader, 0), "abcdef");
  EXPECT_EQ(info.chunks[1].box, (Box{{3, 0}, {1, 2}}));
  EXPECT_EQ(info.chunks[1].device, DeviceId(1));
  EXPECT_EQ(chunk_bytes(**reader, 1), "gh");
  EXPECT_EQ(chunk_bytes(**reader, 3), "xy");
}

TEST(SafetensorsFolder, KeepsStridedPiecesPaddingAndSeveralShardsOfATensor) {
  Target target = whole_target();
  ExplicitCollectionBuilder builder(two_tensors(), 1, {});
  const SubTensor columns{{5}, {{{{0, 1}, {4, 1}}, 1, {1, 1}}}};        // one column, then padding in front
  const SubTensor transposed{{1, 4}, {{{{0, 0}, {4, 1}}, 0, {1, 4}}}};  // the other as a row
  ASSERT_TRUE(builder.add(DeviceId(0), TensorId(0), columns).has_value());
  ASSERT_TRUE(builder.add(DeviceId(0), TensorId(0), transposed).has_value());
  ASSERT_TRUE(builder.add_box(DeviceId(0), TensorId(1), Box::whole({})).has_value());
  target.collection = std::move(builder).finish().value();
  const auto contents = write(target);
  ASSERT_TRUE(contents.has_value()) << contents.error().to_string();
  MemoryFileSystem files;
  put(&files, *contents);
  const auto reader = open(&files);
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  std::map<std::string, std::string> by_box;
  for (std::size_t k = 0; k < 2; ++k) by_box[to_string((*reader)->info().chunks[k].box)] = chunk_bytes(**reader, k);
  EXPECT_EQ(by_box, (std::map<std::string, std::string>{{"[0:4, 0:1]", "aceg"}, {"[0:4, 1:2]", "bdfh"}}));
}

TEST(SafetensorsFolder, IsCorruptWhenManifestAndFilesDisagree) {
  const Contents good = write(cut_target()).value();
  const auto code_of = [](const Contents& contents) {
    MemoryFileSystem files;
    put(&files, contents);
    const auto reader = open(&files);
    return reader ? "ok" : std::string(to_string(reader.error().code()));
  };
  EXPECT_EQ(code_of(good), "ok");
  const std::string first = "device-00000-of-00002.safetensors";
  const std::string second = "device-00001-of-00002.safetensors";
  Contents swapped = good;
  std::swap(swapped[first], swapped[second]);
  EXPECT_EQ(code_of(swapped), "corrupt");
  Contents missing = good;
  missing.erase(second);
  EXPECT_EQ(code_of(missing), "not_found");
  Contents renamed = good;
  const std::size_t at = renamed[second].find("\"w\"");
  renamed[second].replace(at, 3, "\"v\"");
  EXPECT_EQ(code_of(renamed), "corrupt");
  const std::size_t version = good.at("tenplex.json").find("\"version\":1") + 10;  // a newer writer is no damage
  for (std::size_t k = 0; k + 2 < good.at("tenplex.json").size(); ++k) {
    Contents damaged = good;
    damaged["tenplex.json"][k] ^= 4;
    EXPECT_EQ(code_of(damaged) == "ok", k == version) << k;
    damaged["tenplex.json"].resize(k);
    EXPECT_NE(code_of(damaged), "ok") << k;
  }
}

TEST(SafetensorsFolder, OfPytorchDcpIsPutTogetherByItsOffsets) {
  const auto shard = [](const std::string& rows, int offset) {
    const safetensors::Metadata metadata = {
        {"format", "pt"}, {"DCP_SHARDING_INFO", fmt::format(R"({{"w":{{"saved_offsets":[{},0]}}}})", offset)}};
    return safetensors::build_header({{"w", DType::kUInt8, {std::int64_t(rows.size()) / 2, 2}}}, metadata).value() +
           rows;
  };
  MemoryFileSystem files;
  files.put_file("/ck/shard-00001-model-00001-of-00001.safetensors", shard("abcd", 0));
  files.put_file("/ck/shard-00002-model-00001-of-00001.safetensors", shard("ef", 2));
  const auto reader = open(&files);
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  EXPECT_EQ((*reader)->info().tensors[0], (TensorInfo{"w", DType::kUInt8, {3, 2}}));
  EXPECT_EQ((*reader)->info().device_count, 2);
  EXPECT_EQ(chunk_bytes(**reader, 1), "ef");
  ASSERT_EQ((*reader)->info().problems.size(), 1U);
  files.put_file("/ck/shard-00002-model-00001-of-00001.safetensors", shard("ef", 3));
  EXPECT_EQ(open(&files).error().code(), ErrorCode::kCorrupt);
  ASSERT_TRUE(files.remove_all("/ck/shard-00001-model-00001-of-00001.safetensors").has_value());
  EXPECT_EQ(open(&files).error().code(), ErrorCode::kNotFound);
}

TEST(RankFolder, IsReadByACollectionThatTheCallerWorksOut) {
  MemoryFileSystem files;
  const auto put_rank = [&](const std::string& name, const std::string& rows) {
    files.put_file(
        "/ck/" + name,
        safetensors::build_header({{"w", DType::kUInt8, {std::int64_t(rows.size()) / 2, 2}}}, {}).value() + rows);
  };
  put_rank("rank10.safetensors", "gh");
  for (int rank = 0; rank < 10; ++rank) put_rank(fmt::format("rank{}.safetensors", rank), "ab");
  EXPECT_EQ(open(&files).error().code(), ErrorCode::kUnsupported);
  const auto ranks = safetensors::list_rank_folder(files, "/ck", {});
  ASSERT_TRUE(ranks.has_value()) << ranks.error().to_string();
  EXPECT_EQ((*ranks)[10].name, "rank10.safetensors");
  EXPECT_EQ((*ranks)[10].tensors[0].shape, (Dims{1, 2}));
  ExplicitCollectionBuilder builder({{"w", DType::kUInt8, {11, 2}}}, 11, {});
  for (int rank = 0; rank < 11; ++rank)
    ASSERT_TRUE(builder.add_box(DeviceId(rank), TensorId(0), {{rank, 0}, {1, 2}}).has_value());
  const auto collection = std::move(builder).finish().value();
  const auto reader = safetensors::open_rank_folder(files, "/ck", *collection, {}, {});
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  EXPECT_EQ(chunk_bytes(**reader, 10), "gh");
  put_rank("rank3.safetensors", "abcd");
  EXPECT_EQ(safetensors::open_rank_folder(files, "/ck", *collection, {}, {}).error().code(),
            ErrorCode::kInvalidArgument);
  ASSERT_TRUE(files.remove_all("/ck/rank4.safetensors").has_value());
  EXPECT_EQ(safetensors::list_rank_folder(files, "/ck", {}).error().code(), ErrorCode::kNotFound);
}

// Written by safetensors 0.8.0; see make.py beside it.
TEST(SafetensorsFile, OfTheRealLibraryHasEveryDtype) {
  const auto path = std::filesystem::path("tests/golden/v1/safetensors/every_dtype.safetensors");
  const auto files = local_file_system();
  const auto reader = open_checkpoint(*files, path.string(), {});
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  const CheckpointInfo& info = (*reader)->info();
  ASSERT_EQ(info.tensors.size(), 21U);
  for (std::size_t index = 0; index < info.chunks.size(); ++index) {
    const TensorInfo& tensor = info.tensors[info.chunks[index].tensor.index()];
    const std::string bytes = chunk_bytes(**reader, index);
    if (tensor.name == "scalar") {
      EXPECT_EQ(bytes, std::string("\x00\x00\xc0\x3f", 4));
    } else if (tensor.name == "empty") {
      EXPECT_EQ(tensor.shape, (Dims{0, 4}));
    } else {
      EXPECT_EQ(to_string(tensor.dtype), tensor.name);
      EXPECT_EQ(tensor.shape, (Dims{2, 3}));
      for (std::size_t k = 0; k < bytes.size(); ++k)
        EXPECT_EQ(static_cast<std::size_t>(static_cast<unsigned char>(bytes[k])), tensor.name == "bool" ? k % 2 : k);
    }
  }
}

TEST(NaturalOrder, ComparesNumbersByValue) {
  EXPECT_TRUE(natural_less("rank2", "rank10"));
  EXPECT_FALSE(natural_less("rank10", "rank2"));
  EXPECT_TRUE(natural_less("a9b", "a10a"));
  EXPECT_TRUE(natural_less("a1", "a01"));
  EXPECT_FALSE(natural_less("a", "a"));
}

TEST(NaturalOrder, FindsGapsInNumberedFiles) {
  EXPECT_TRUE(check_numbering({"r0", "r1", "r2"}).has_value());
  EXPECT_TRUE(check_numbering({"m-1-of-2", "m-2-of-2"}).has_value());
  EXPECT_FALSE(check_numbering({"r0", "r2"}).has_value());
  EXPECT_FALSE(check_numbering({"r2", "r3"}).has_value());
  EXPECT_FALSE(check_numbering({"m-1-of-3", "m-2-of-3"}).has_value());
  EXPECT_FALSE(check_numbering({"a1", "b2"}).has_value());
}

}  // namespace
}  // namespace tenplex
