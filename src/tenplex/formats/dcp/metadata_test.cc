// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/metadata.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tenplex/formats/dcp/catalog.h"
#include "tenplex/formats/pickle/pickle_writer.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex::dcp {
namespace {

using ::testing::HasSubstr;

struct TestChunk {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
  std::int64_t item_offset = 0;
  std::int64_t item_length = 10;
  std::string path = "__0_0.distcp";
  std::int64_t hint = 0;
  int stored = 1;  // how often storage_data has it
  bool transformed = false;
};

struct TestTensor {
  std::string name = "w";
  std::vector<std::int64_t> shape;
  std::vector<TestChunk> chunks;
  std::string dtype = "float32";
  std::string layout = "torch.strided";
};

struct Style {
  std::string package = "torch.distributed.checkpoint";
  std::string properties_module = "torch.distributed.checkpoint.metadata";
  std::string root_module = "torch.distributed.checkpoint.metadata";
  bool properties_as_dict = false;
  bool enum_by_getattr = false;
  bool plain_tuples = false;  // instead of torch.Size
};

// Writes Metadata as torch pickles it, in the given style.
class MetadataPickle {
 public:
  explicit MetadataPickle(Style style = {}) : style_(std::move(style)) {}

  std::string write(const std::vector<TestTensor>& tensors, const std::vector<std::string>& objects = {}) {
    begin(style_.root_module, "Metadata");
    out_.text("state_dict_metadata");
    out_.empty_dict();
    for (const TestTensor& tensor : tensors) {
      out_.text(tensor.name);
      write_tensor(tensor);
      out_.set_item();
    }
    for (const std::string& name : objects) {
      out_.text(name);
      out_.global(style_.package + ".metadata", "BytesStorageMetadata");
      out_.empty_tuple();
      out_.new_object();
      out_.set_item();
    }
    out_.text("planner_data");
    out_.none();
    out_.text("storage_data");
    out_.empty_dict();
    for (const TestTensor& tensor : tensors) {
      for (const TestChunk& chunk : tensor.chunks) {
        for (int i = 0; i < chunk.stored; ++i) write_storage(tensor.name, chunk);
      }
    }
    for (const std::string& name : objects) write_storage(name, {.offsets = {-1}, .sizes = {}});
    out_.text("something_new");
    out_.global("megatron.core.dist_checkpointing", "MCoreSavePlan");
    out_.empty_tuple();
    out_.new_object();
    end();
    out_.stop();
    return out_.take();
  }

 private:
  void begin(const std::string& module, const char* name) {
    out_.global(module, name);
    out_.empty_tuple();
    out_.new_object();
    out_.empty_dict();
    out_.mark();
  }
  void end() {
    out_.set_items();
    out_.build();
  }
  void size(const std::vector<std::int64_t>& values) {
    if (!style_.plain_tuples) out_.global("torch", "Size");
    out_.mark();
    for (const std::int64_t value : values) out_.integer(value);
    out_.tuple();
    if (style_.plain_tuples) return;
    out_.tuple(1);
    out_.reduce();
  }
  void write_properties(const TestTensor& tensor) {
    out_.global(style_.properties_module, "TensorProperties");
    out_.empty_tuple();
    out_.new_object();
    if (style_.properties_as_dict) {
      out_.empty_dict();
      out_.text("dtype");
      out_.global("torch", tensor.dtype);
      out_.set_item();
      out_.text("requires_grad");
      out_.boolean(true);
      out_.set_item();
      out_.build();
      return;
    }
    out_.mark();
    out_.global("torch", tensor.dtype);
    out_.global("torch.serialization", "_get_layout");
    out_.text(tensor.layout);
    out_.tuple(1);
    out_.reduce();
    out_.boolean(false);
    if (style_.enum_by_getattr) {
      out_.global("builtins", "getattr");
      out_.global(style_.package + ".metadata", "_MEM_FORMAT_ENCODING");
      out_.text("TORCH_CONTIGUOUS_FORMAT");
      out_.tuple(2);
    } else {
      out_.global(style_.package + ".metadata", "_MEM_FORMAT_ENCODING");
      out_.integer(0);
      out_.tuple(1);
    }
    out_.reduce();
    out_.boolean(false);
    out_.tuple();
    out_.build();
  }
  void write_tensor(const TestTensor& tensor) {
    begin(style_.package + ".metadata", "TensorStorageMetadata");
    out_.text("properties");
    write_properties(tensor);
    out_.text("size");
    size(tensor.shape);
    out_.text("chunks");
    out_.empty_list();
    for (const TestChunk& chunk : tensor.chunks) {
      begin(style_.package + ".metadata", "ChunkStorageMetadata");
      out_.text("offsets");
      size(chunk.offsets);
      out_.text("sizes");
      size(chunk.sizes);
      end();
      out_.append();
    }
    end();
  }
  void write_storage(const std::string& name, const TestChunk& chunk) {
    begin(style_.package + ".metadata", "MetadataIndex");
    out_.text("fqn");
    out_.text(name);
    if (chunk.offsets != std::vector<std::int64_t>{-1}) {
      out_.text("offset");
      size(chunk.offsets);
    }
    out_.text("index");
    out_.integer(chunk.hint);
    end();
    begin(style_.package + ".filesystem", "_StorageInfo");
    out_.text("relative_path");
    out_.text(chunk.path);
    out_.text("offset");
    out_.integer(chunk.item_offset);
    out_.text("length");
    out_.integer(chunk.item_length);
    if (chunk.transformed) {
      out_.text("transform_descriptors");
      out_.empty_list();
      out_.text("zstd");
      out_.append();
    }
    end();
    out_.set_item();
  }

  Style style_;
  PickleWriter out_{4};
};

// A folder in memory with that metadata and two data files of 100 bytes.
struct Folder {
  explicit Folder(const std::string& metadata) {
    files.put_file("/c/.metadata", metadata);
    for (const char* name : {"__0_0.distcp", "__1_0.distcp"}) files.put_file(std::string("/c/") + name, data);
    files.put_file("/outside", data);
  }
  explicit Folder(const std::vector<TestTensor>& tensors, Style style = {})
      : Folder(MetadataPickle(std::move(style)).write(tensors)) {}

  Result<MetadataTables> tables() {
    auto source = files.open("/c/.metadata");
    return read_metadata(**source, 1 << 20);
  }
  Result<Catalog> catalog() {
    TENPLEX_ASSIGN_OR_RETURN(const MetadataTables read, tables());
    return build_catalog(read, pool);
  }
  std::string error() {
    const auto result = catalog();
    return result ? "no error" : result.error().to_string();
  }

  std::string data = std::string(100, 'x');
  MemoryFileSystem files;
  FilePool pool{files, "/c"};
};

std::string golden(const std::string& name) {
  const auto root = std::filesystem::path("tests/golden/v1/dcp");
  std::ifstream file(root / name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DcpMetadata, ReadsWhatTorchWroteFromTwoRanks) {
  Folder folder(golden("sharded/.metadata"));
  folder.files.put_file("/c/__0_0.distcp", golden("sharded/__0_0.distcp"));
  folder.files.put_file("/c/__1_0.distcp", golden("sharded/__1_0.distcp"));
  const auto tables = folder.tables();
  ASSERT_TRUE(tables) << tables.error().to_string();
  EXPECT_EQ(tables->version, "1.0.0");
  EXPECT_TRUE(tables->problems.empty());
  const auto catalog = build_catalog(*tables, folder.pool);
  ASSERT_TRUE(catalog) << catalog.error().to_string();
  ASSERT_EQ(catalog->tensors.size(), 1U);
  EXPECT_EQ(catalog->tensors[0], (TensorInfo{"model.w", DType::kFloat32, {3, 2}}));
  EXPECT_EQ(catalog->device_count, 2);
  ASSERT_EQ(catalog->chunks.size(), 2U);
  const Chunk first = catalog->chunks[0];
  EXPECT_EQ(first.box, (Box{{0, 0}, {2, 2}}));
  EXPECT_EQ(first.device, DeviceId(0));
  EXPECT_EQ(catalog->files[static_cast<std::size_t>(first.file)], "__0_0.distcp");
  EXPECT_EQ(first.position, 0);
  EXPECT_EQ(catalog->lengths[0], 1577);
  const Chunk second = catalog->chunks[1];
  EXPECT_EQ(second.box, (Box{{2, 0}, {1, 2}}));
  EXPECT_EQ(second.device, DeviceId(1));
  EXPECT_EQ(second.position, 1261);
  ASSERT_EQ(catalog->byte_items.size(), 1U);
  EXPECT_EQ(tables->text(tables->byte_items[0].name), "step");
  EXPECT_EQ(catalog->byte_items[0].offset, 0);
  EXPECT_EQ(catalog->byte_items[0].length, 1261);
}

// The bytes that docs/formats/dcp.md explains one by one; what they mean is checked above.
TEST(DcpMetadata, TheWorkedExampleOfTheDocumentIsInTheGolden) {
  const auto root = std::filesystem::path(".");
  std::ifstream file(root / "docs/formats/dcp.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string_view fence = "```hex\n";
  const std::size_t begin = text.find(fence) + fence.size();
  std::istringstream hex(text.substr(begin, text.find("```", begin) - begin));
  std::string bytes;
  for (int value = 0; hex >> std::hex >> value;) bytes.push_back(static_cast<char>(value));
  ASSERT_EQ(bytes.size(), 64U);
  EXPECT_EQ(golden("sharded/.metadata").substr(816, bytes.size()), bytes);
}

TEST(DcpMetadata, KeepsOneEmptyChunkOfAnEmptyTensorAndTheScalar) {
  Folder folder(golden("strided/.metadata"));
  folder.files.put_file("/c/__0_0.distcp", golden("strided/__0_0.distcp"));
  const auto catalog = folder.catalog();
  ASSERT_TRUE(catalog) << catalog.error().to_string();
  ASSERT_EQ(catalog->tensors.size(), 4U);
  EXPECT_EQ(catalog->tensors[1], (TensorInfo{"none", DType::kFloat32, {0, 4}}));
  EXPECT_EQ(catalog->tensors[2], (TensorInfo{"scalar", DType::kBFloat16, {}}));
  EXPECT_EQ(catalog->chunks.size(), 4U);
  EXPECT_EQ(catalog->byte_items.size(), 5U);
}

TEST(DcpMetadata, NoPrefixOfARealFileIsTakenAsWhole) {
  const std::string whole = golden("strided/.metadata");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Folder(whole.substr(0, size)).tables()) << size;
  }
}

TEST(DcpMetadata, WithAFlippedByteIsRefusedOrDescribesChunksThatExist) {
  const std::string whole = golden("sharded/.metadata");
  const std::string data[] = {golden("sharded/__0_0.distcp"), golden("sharded/__1_0.distcp")};
  int refused = 0;
  int accepted = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x20, 0xff}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      Folder folder(damaged);
      folder.files.put_file("/c/__0_0.distcp", data[0]);
      folder.files.put_file("/c/__1_0.distcp", data[1]);
      const auto catalog = folder.catalog();
      ++(catalog ? accepted : refused);
      if (!catalog) {
        EXPECT_FALSE(catalog.error().message().empty()) << i;
        continue;
      }
      for (std::size_t chunk = 0; chunk < catalog->chunks.size(); ++chunk) {
        const Chunk found = catalog->chunks[chunk];
        EXPECT_TRUE(contains(Box::whole(catalog->tensors[found.tensor.index()].shape), found.box)) << i;
        const std::string& file = catalog->files[static_cast<std::size_t>(found.file)];
        EXPECT_LE(found.position + catalog->lengths[chunk], std::ssize(data[file == "__1_0.distcp" ? 1 : 0])) << i;
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 0);  // a flip in a name, or in what nobody reads
}

const std::vector<TestTensor> kGood = {
    {.name = "w", .shape = {4}, .chunks = {{{0}, {2}, 0, 10}, {{2}, {2}, 10, 20, "__1_0.distcp", 1}}}};

TEST(DcpMetadata, AcceptsTheClassesOfOldVersions) {
  Style style;
  style.package = "torch.distributed._shard.checkpoint";
  style.properties_module = "torch.distributed._shard.sharded_tensor.metadata";
  style.root_module = "torch.distributed._shard.checkpoint.metadata";
  const auto catalog = Folder(kGood, style).catalog();
  ASSERT_TRUE(catalog) << catalog.error().to_string();
  EXPECT_EQ(catalog->chunks.size(), 2U);
}

TEST(DcpMetadata, AcceptsTheEnumerationThroughGetattr) {
  const auto catalog = Folder(kGood, {.enum_by_getattr = true}).catalog();
  ASSERT_TRUE(catalog) << catalog.error().to_string();
}

TEST(DcpMetadata, AcceptsPropertiesAsADict) {
  Folder folder(kGood, {.properties_as_dict = true});
  const auto tables = folder.tables();
  ASSERT_TRUE(tables) << tables.error().to_string();
  EXPECT_TRUE(tables->tensors[0].requires_grad);
}

TEST(DcpMetadata, AcceptsTuplesForSizes) { EXPECT_TRUE(Folder(kGood, {.plain_tuples = true}).catalog()); }

TEST(DcpMetadata, AcceptsAMetadataClassItDoesNotKnow) {
  const auto catalog = Folder(kGood, {.root_module = "megatron.core.something"}).catalog();
  EXPECT_TRUE(catalog) << catalog.error().to_string();
}

TEST(DcpMetadata, JoinsItemsWhoseIndexHintsAreWrong) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[0].hint = 1;
  tensors[0].chunks[1].hint = 77;
  const auto catalog = Folder(tensors).catalog();
  ASSERT_TRUE(catalog) << catalog.error().to_string();
  EXPECT_EQ(catalog->chunks[0].position, 0);
  EXPECT_EQ(catalog->chunks[1].position, 10);
}

TEST(DcpMetadata, NamesTheMissingBox) {
  const std::string error =
      Folder(std::vector<TestTensor>{{.name = "a.b", .shape = {4, 2}, .chunks = {{{0, 0}, {3, 2}}}}}).error();
  EXPECT_THAT(error, HasSubstr("tensor 'a.b'"));
  EXPECT_THAT(error, HasSubstr("no chunk holds [3:4, 0:2]"));
}

TEST(DcpMetadata, NamesATensorThatIsTooLargeOnce) {
  const std::int64_t huge = 1'000'000'000'000'000'000;
  EXPECT_EQ(Folder(std::vector<TestTensor>{{.shape = {huge}, .chunks = {{{0}, {huge}}}}}).error(),
            "tensor 'w': float32 of shape [1000000000000000000] has 2^60 bytes or more");
}

TEST(DcpMetadata, RefusesOverlappingChunks) {
  EXPECT_THAT(Folder(std::vector<TestTensor>{{.shape = {4}, .chunks = {{{0}, {3}}, {{2}, {2}}}}}).error(),
              HasSubstr("chunks [0:3] and [2:4] overlap"));
}

TEST(DcpMetadata, RefusesChunksOutsideTheTensor) {
  EXPECT_THAT(Folder(std::vector<TestTensor>{{.shape = {4}, .chunks = {{{2}, {3}}}}}).error(),
              HasSubstr("offsets [2] and sizes [3] lies outside the shape [4]"));
  EXPECT_THAT(Folder(std::vector<TestTensor>{{.shape = {4}, .chunks = {{{-2}, {3}}}}}).error(),
              HasSubstr("lies outside the shape [4]"));
  EXPECT_THAT(
      Folder(std::vector<TestTensor>{{.shape = {4}, .chunks = {{{1}, {std::numeric_limits<std::int64_t>::max()}}}}})
          .error(),
      HasSubstr("lies outside the shape [4]"));
}

TEST(DcpMetadata, NamesTheTensorWhoseOffsetsHaveAnotherRankThanItsSizes) {
  const std::string error =
      Folder(std::vector<TestTensor>{{.name = "odd", .shape = {4, 2}, .chunks = {{{0, 0, 0}, {4, 2}}}}}).error();
  EXPECT_THAT(error, HasSubstr("tensor 'odd'"));
  EXPECT_THAT(error, HasSubstr("3 offsets and 2 sizes"));
}

TEST(DcpMetadata, RefusesAChunkWithoutAnItem) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[1].stored = 0;
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("tensor 'w': chunk [2:4] has no entry in storage_data"));
}

TEST(DcpMetadata, RefusesAChunkThatIsListedTwice) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks.push_back(tensors[0].chunks[1]);
  tensors[0].chunks.back().stored = 0;
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("tensor 'w': 2 chunks are listed at the offsets [2]"));
}

TEST(DcpMetadata, RefusesTwoItemsForOneChunk) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[1].stored = 2;
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("names the same chunk of 'w' twice"));
}

TEST(DcpMetadata, RefusesATensorNameThatRepeats) {
  std::vector<TestTensor> tensors = kGood;
  tensors.push_back(tensors[0]);
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("a dict has one key twice: 'w'"));
}

TEST(DcpMetadata, ReportsItemsThatBelongToNothing) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[1].offsets = {1};  // the list below says 2
  std::string pickle = MetadataPickle().write(tensors);
  const auto error = Folder(pickle).error();
  EXPECT_THAT(error, HasSubstr("tensor 'w'"));
}

TEST(DcpMetadata, RefusesItemsOutsideTheirFile) {
  for (const auto& [offset, length] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {95, 10}, {-1, 10}, {0, -1}, {101, 0}, {std::numeric_limits<std::int64_t>::max(), 10}}) {
    std::vector<TestTensor> tensors = kGood;
    tensors[0].chunks[1].item_offset = offset;
    tensors[0].chunks[1].item_length = length;
    EXPECT_THAT(Folder(tensors).error(), HasSubstr(fmt::format("offset {} of length {} lies outside", offset, length)));
  }
}

TEST(DcpMetadata, RefusesStreamTransforms) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[0].transformed = true;
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("transform_descriptors"));
}

TEST(DcpMetadata, RefusesPathsThatLeaveTheFolder) {
  for (const std::string path : {"../outside", "/outside", "", "a/../../outside"}) {
    std::vector<TestTensor> tensors = kGood;
    tensors[0].chunks[0].path = path;
    Folder folder(tensors);
    const auto catalog = folder.catalog();
    ASSERT_FALSE(catalog) << path;
    EXPECT_EQ(catalog.error().code(), ErrorCode::kInvalidArgument) << path;
  }
}

TEST(DcpMetadata, RefusesALinkThatLeavesTheFolder) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[0].path = "link";
  Folder folder(tensors);
  folder.files.put_link("/c/link", "../outside");
  EXPECT_FALSE(folder.catalog());
}

TEST(DcpMetadata, NamesAMissingDataFile) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].chunks[1].path = "__7_0.distcp";
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("__7_0.distcp"));
}

TEST(DcpMetadata, RefusesWhatItCannotRepresent) {
  std::vector<TestTensor> tensors = kGood;
  tensors[0].dtype = "quint8";
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("tensor 'w': element type 'torch.quint8'"));
  tensors = kGood;
  tensors[0].layout = "torch.sparse_coo";
  EXPECT_THAT(Folder(tensors).error(), HasSubstr("layout 'torch.sparse_coo'"));
  const std::vector<std::int64_t> nine(9, 1);
  const std::vector<std::int64_t> zeros(9, 0);
  EXPECT_THAT(Folder(std::vector<TestTensor>{{.shape = nine, .chunks = {{zeros, nine}}}}).error(),
              HasSubstr("has 9 dimensions"));
}

TEST(DcpMetadata, RefusesShapesWhoseBytesDoNotFit) {
  const std::int64_t huge = 1'000'000'000'000'000'000;
  EXPECT_FALSE(Folder(std::vector<TestTensor>{{.shape = {huge, huge}, .chunks = {{{0, 0}, {huge, huge}}}}}).catalog());
  EXPECT_FALSE(
      Folder(std::vector<TestTensor>{{.shape = {huge}, .chunks = {{{0}, {huge}}}, .dtype = "complex128"}}).catalog());
}

TEST(DcpMetadata, ChecksTheSizeBeforeReading) {
  Folder folder(kGood);
  auto source = folder.files.open("/c/.metadata");
  const auto tables = read_metadata(**source, 10);
  ASSERT_FALSE(tables);
  EXPECT_EQ(tables.error().code(), ErrorCode::kResourceExhausted);
}

// Every BINGET of the long list costs two bytes; what is made of it must not cost its length each time.
TEST(DcpMetadata, AShortPickleCannotRepeatALongListForEver) {
  PickleWriter out(4);
  out.empty_list();
  const std::uint32_t list = out.put();
  out.mark();
  for (int i = 0; i < 100'000; ++i) out.integer(1);
  out.appends();
  out.pop();
  out.empty_list();
  out.mark();
  for (int i = 0; i < 100'000; ++i) {
    out.global("torch", "Size");
    out.get(list);
    out.tuple(1);
    out.reduce();
  }
  out.appends();
  out.stop();
  EXPECT_FALSE(Folder(out.take()).tables());
}

TEST(DcpCatalog, TheRankIsInTheFileName) {
  EXPECT_EQ(device_of_file("__3_0.distcp"), DeviceId(3));
  EXPECT_EQ(device_of_file("sub/__12_7.distcp"), DeviceId(12));
  EXPECT_EQ(device_of_file("weights.distcp"), DeviceId(0));
  EXPECT_EQ(device_of_file("__x_0.distcp"), DeviceId(0));
  EXPECT_EQ(device_of_file("__99999999999_0.distcp"), DeviceId(0));
  EXPECT_EQ(device_of_file("__-4_0.distcp"), DeviceId(0));
}

}  // namespace
}  // namespace tenplex::dcp
