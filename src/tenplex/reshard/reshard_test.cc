// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The engine against checkpoints in memory whose bytes the tests place themselves, one element at a time.
#include "tenplex/reshard/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tenplex/io/testing/recording_file_system.h"
#include "tenplex/plan/testing/random_collection.h"
#include "tenplex/reshard/testing/raw_checkpoint.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> random_contents(std::span<const TensorInfo> tensors, std::uint32_t seed) {
  std::vector<std::string> contents;
  for (const TensorInfo& tensor : tensors) contents.push_back(random_bytes(size_bytes(tensor), seed++));
  return contents;
}

/// Shards with one holder each, in the order of devices.
ListedTensor listed(const TensorInfo& info, const std::vector<SubTensor>& shards) {
  ListedTensor tensor{info, {}, 0};
  for (std::size_t i = 0; i < shards.size(); ++i) tensor.shards.push_back({shards[i], {DeviceId(i)}});
  return tensor;
}

/// Equal cuts of one dimension.
ListedTensor cut(const TensorInfo& info, int dim, int parts) {
  std::vector<SubTensor> shards;
  for (int part = 0; part < parts; ++part) {
    Box box = Box::whole(info.shape);
    box.offset[dim] = info.shape[dim] * part / parts;
    box.extent[dim] = info.shape[dim] * (part + 1) / parts - box.offset[dim];
    shards.push_back(sub_tensor_of_box(box));
  }
  return listed(info, shards);
}

class Engine {
 public:
  explicit Engine(int threads = 2) : executor_(threads) { memory_.put_folder("/out"); }

  Result<ReshardReport> run(const CheckpointReader& source, const Collection& target, CheckpointWriter& writer,
                            ReshardOptions options = {}) {
    if (options.max_memory_bytes > (8 << 20)) options.max_memory_bytes = 8 << 20;
    Progress progress(stop_.get_token());
    WriteRequest request;
    request.source = &source.info();
    request.target = &target;
    request.objects_folder = "/out/objects";
    return reshard(source, target, writer, request, files_, "/out/target", options, executor_, progress);
  }

  MemoryFileSystem memory_;
  RecordingFileSystem files_{memory_};
  Executor executor_;
  std::stop_source stop_;
};

/// Re-cuts and checks every byte of every file.
ReshardReport expect_recut(const Collection& source, const Collection& target, const RawWriterOptions& options = {},
                           std::int64_t max_memory = 4 << 20, int threads = 2) {
  Engine engine(threads);
  const auto contents = random_contents(source.tensors(), 7);
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, contents);
  RawWriter writer(options);
  ReshardOptions engine_options;
  engine_options.max_memory_bytes = max_memory;
  const auto report = engine.run(*reader, target, writer, engine_options);
  EXPECT_TRUE(report) << report.error().to_string();
  if (!report) return {};
  const auto expected = expected_files(writer, target, contents);
  const auto found = files_of(engine.memory_, "/out/target");
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [path, bytes] : expected) {
    const auto file = found.find(path);
    EXPECT_NE(file, found.end()) << path;
    if (file != found.end()) {
      EXPECT_TRUE(file->second == bytes) << path << " differs: " << file->second.size() << " of " << bytes.size();
    }
  }
  EXPECT_LE(report->peak_buffer_bytes, max_memory);
  return *report;
}

TEST(Reshard, CutsRowsIntoColumns) {
  const TensorInfo info{"w", DType::kFloat32, {64, 48}};
  const auto report = expect_recut(ListedCollection(4, {cut(info, 0, 4)}), ListedCollection(3, {cut(info, 1, 3)}));
  EXPECT_EQ(report.bytes_needed, 64 * 48 * 4);
  EXPECT_LE(report.bytes_read, report.bytes_needed * 105 / 100 + 4 * 4096);
  EXPECT_EQ(report.items_checked, 4);
  EXPECT_EQ(report.items_unchecked, 0);
}

TEST(Reshard, StreamsATensorLargerThanTheMemory) {
  const TensorInfo info{"w", DType::kBFloat16, {512, 3000}};
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}, {1, 1}, {0, 0}}) {
    const auto report = expect_recut(ListedCollection(3, {cut(info, from, 3)}), ListedCollection(5, {cut(info, to, 5)}),
                                     {}, kMinMemoryBytes);
    EXPECT_LE(report.bytes_read, report.bytes_needed * 105 / 100 + 3 * 4096);
    EXPECT_GT(report.windows, 1);
  }
}

TEST(Reshard, StreamsARowLargerThanTheMemory) {
  const TensorInfo info{"w", DType::kFloat64, {2, 300000}};
  expect_recut(ListedCollection(3, {cut(info, 1, 3)}), ListedCollection(5, {cut(info, 1, 5)}), {}, kMinMemoryBytes, 3);
}

TEST(Reshard, PutsAFlatBucketWithPaddingTogether) {
  const TensorInfo info{"w", DType::kFloat32, {7, 5}};
  std::vector<SubTensor> flat;
  for (const auto& [begin, end] : {std::pair{0, 12}, {12, 24}, {24, 35}}) {
    SubTensor shard;
    shard.local_shape = {20};
    std::int64_t at = 3;
    for (const Box& box : boxes_of_flat_range(info.shape, begin, end)) {
      shard.pieces.push_back({box, at, row_major_strides(box.extent)});
      at += volume(box);
    }
    flat.push_back(shard);
  }
  const ListedCollection bucket(3, {listed(info, flat)});
  const ListedCollection columns(2, {cut(info, 1, 2)});
  expect_recut(bucket, columns);
  expect_recut(columns, bucket);
  expect_recut(bucket, bucket, {.pieces = true});
}

TEST(Reshard, TransposesStoredAndWrittenViews) {
  for (const Dims& shape : {Dims{9, 14}, Dims{700, 900}}) {
    const TensorInfo info{"w", DType::kFloat32, shape};
    SubTensor transposed;
    transposed.local_shape = {shape[1], shape[0]};
    transposed.pieces.push_back({Box::whole(shape), 0, {1, shape[0]}});
    const ListedCollection view(1, {listed(info, {transposed})});
    const ListedCollection rows(3, {cut(info, 0, 3)});
    expect_recut(view, rows, {}, kMinMemoryBytes);
    expect_recut(rows, view, {}, kMinMemoryBytes);
  }
}

// A window of some rows meets each stored column in a run of some hundred bytes, 4,000 bytes from the next.
TEST(Reshard, ReadsThroughRunsThatLieOnEveryPage) {
  const TensorInfo info{"w", DType::kFloat32, {1000, 2000}};
  SubTensor transposed;
  transposed.local_shape = {2000, 1000};
  transposed.pieces.push_back({Box::whole(info.shape), 0, {1, 1000}});
  const ListedCollection view(1, {listed(info, {transposed})});
  const ListedCollection rows(2, {cut(info, 0, 2)});
  Engine engine;
  const auto contents = random_contents(view.tensors(), 7);
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", view, contents);
  RawWriter writer{RawWriterOptions{}};
  ReshardOptions options;
  options.max_memory_bytes = kMinMemoryBytes;
  const auto report = engine.run(*reader, rows, writer, options);
  ASSERT_TRUE(report) << report.error().to_string();
  // One call for each run would be 2,000 columns times the windows.
  EXPECT_GE(report->windows, 8);
  EXPECT_LT(engine.files_.call_count(), 1000 * report->windows);
  const auto found = files_of(engine.memory_, "/out/target");
  for (const auto& [path, bytes] : expected_files(writer, rows, contents)) EXPECT_EQ(found.at(path), bytes) << path;
}

TEST(Reshard, KeepsTypesSmallerThanAByte) {
  for (const DType dtype : {DType::kFloat4E2M1FN, DType::kFloat6E3M2FN}) {
    const TensorInfo info{"w", dtype, {6, 64}};
    expect_recut(ListedCollection(3, {cut(info, 0, 3)}), ListedCollection(4, {cut(info, 1, 4)}));
    expect_recut(ListedCollection(4, {cut(info, 1, 4)}), ListedCollection(1, {cut(info, 0, 1)}));
  }
}

TEST(Reshard, RefusesToCutInsideAByte) {
  const TensorInfo info{"w", DType::kFloat4E2M1FN, {6, 10}};
  Engine engine;
  const ListedCollection source(1, {cut(info, 0, 1)});
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {std::string(30, 'x')});
  RawWriter writer;
  const Box odd[] = {{{0, 0}, {6, 5}}, {{0, 5}, {6, 5}}};
  const ListedCollection target(2, {listed(info, {sub_tensor_of_box(odd[0]), sub_tensor_of_box(odd[1])})});
  EXPECT_FALSE(engine.run(*reader, target, writer));
}

TEST(Reshard, MovesScalarsEmptyTensorsAndManyTinyOnes) {
  std::vector<ListedTensor> source;
  std::vector<ListedTensor> target;
  for (int i = 0; i < 3000; ++i) {
    const TensorInfo info{"t" + std::to_string(i), DType::kInt16, i % 3 == 0 ? Dims{} : Dims{i % 4, i % 7}};
    source.push_back(i % 3 == 0 ? listed(info, {whole_tensor({})}) : cut(info, 0, 2));
    target.push_back(i % 3 == 0 ? listed(info, {whole_tensor({})}) : cut(info, 1, 3));
  }
  const auto report = expect_recut(ListedCollection(2, source), ListedCollection(3, target));
  EXPECT_LT(report.windows, 50) << "tiny tensors share their reads and writes";
}

TEST(Reshard, CutsIntoManyTinyShards) {
  const TensorInfo info{"w", DType::kInt8, {1000, 30}};
  expect_recut(ListedCollection(1, {cut(info, 0, 1)}), ListedCollection(500, {cut(info, 0, 500)}));
  expect_recut(ListedCollection(500, {cut(info, 0, 500)}), ListedCollection(30, {cut(info, 1, 30)}));
}

TEST(Reshard, GoesThereAndBackOnRandomCuts) {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomCollections random(seed);
    const std::vector<TensorInfo> tensors = random.tensors();
    const ListedCollection a = random.collection(tensors, 3);
    const ListedCollection b = random.collection(tensors, 4);
    expect_recut(a, b, {.pieces = seed % 2 == 0, .crcs = seed % 3 == 0, .manifest = seed % 5 != 0}, 2 << 20,
                 1 + static_cast<int>(seed % 3));
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(Reshard, WritesASharedStorageOnceForAllItsViews) {
  const TensorInfo whole{"w", DType::kFloat32, {4, 6}};
  const TensorInfo transposed{"w.t", DType::kFloat32, {6, 4}};
  const TensorInfo rows{"rows", DType::kFloat32, {2, 6}};
  const std::string storage = random_bytes(4 * 6 * 4 + 8, 3);
  std::vector<std::string> contents = {storage.substr(4, 96), std::string(96, ' '), storage.substr(4 + 24, 48)};
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 4; ++j) std::memcpy(&contents[1][(i * 4 + j) * 4], &contents[0][(j * 6 + i) * 4], 4);
  const std::vector<StorageView> views = {{TensorId(0), 1, {6, 1}}, {TensorId(1), 1, {1, 6}}, {TensorId(2), 7, {6, 1}}};
  std::string expected = storage;
  expected.replace(0, 4, 4, '\0');
  expected.replace(100, 4, 4, '\0');

  const ListedCollection target(1, {cut(whole, 0, 1), cut(transposed, 0, 1), cut(rows, 0, 1)});
  const ListedCollection source(3, {cut(whole, 0, 3), cut(transposed, 1, 2), cut(rows, 0, 1)});
  for (const bool damaged : {false, true}) {
    Engine engine;
    if (damaged) contents[1][5] = static_cast<char>(contents[1][5] ^ 1);
    const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, contents);
    RawWriter writer({.storage = views, .storage_bytes = 104});
    const auto report = engine.run(*reader, target, writer);
    if (damaged) {
      ASSERT_FALSE(report);
      EXPECT_THAT(report.error().to_string(), HasSubstr("shares memory"));
      continue;
    }
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(files_of(engine.memory_, "/out/target"), expected_files(writer, target, contents, expected));
  }
}

TEST(Reshard, WritesATensorWholeBesideItsShards) {
  const TensorInfo info{"w", DType::kInt16, {700, 3000}};  // 4.2 MB: several windows
  const ListedCollection source(2, {cut(info, 1, 2)});
  const ListedCollection target(3, {cut(info, 0, 3)});
  const std::string content = random_bytes(700 * 3000 * 2, 9);
  for (const bool pieces : {false, true}) {
    Engine engine;
    const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {content});
    RawWriter writer({.pieces = pieces,
                      .storage = {{TensorId(0), 0, {3000, 1}}},
                      .storage_bytes = std::ssize(content),
                      .also_as_shards = true});
    const auto report = engine.run(*reader, target, writer);
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(files_of(engine.memory_, "/out/target"), expected_files(writer, target, {content}, content));
  }
}

TEST(Reshard, AWholeTensorOrAStorageDoesNotStandForAMissingShard) {
  const TensorInfo info{"w", DType::kInt8, {4, 3}};
  const ListedCollection source(1, {cut(info, 0, 1)});
  const ListedCollection target(2, {cut(info, 0, 2)});
  for (const bool whole : {true, false}) {
    for (const std::int64_t shard : {0, 1}) {
      Engine engine;
      const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {"abcdefghijkl"});
      RawWriter writer({.storage = {{TensorId(0), whole ? 0 : 1, {3, 1}}},
                        .storage_bytes = whole ? 12 : 13,
                        .also_as_shards = true,
                        .left_out_shard = shard});
      const auto report = engine.run(*reader, target, writer);
      ASSERT_FALSE(report);
      EXPECT_THAT(report.error().to_string(), HasSubstr(fmt::format("misses shard {} of tensor 'w'", shard)));
    }
  }
}

TEST(Reshard, ComparesATiedTensorThatIsStoredWholeAsWell) {
  const TensorInfo head{"head", DType::kInt8, {4, 3}};
  const TensorInfo embedding{"embedding", DType::kInt8, {4, 3}};
  const ListedCollection whole(1, {cut(head, 0, 1), cut(embedding, 0, 1)});
  for (const std::string other : {"abcdefghijkl", "abcdefghijkL"}) {
    Engine engine;
    const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", whole, {other, "abcdefghijkl"});
    RawWriter writer({.storage = {{TensorId(0), 0, {3, 1}}},
                      .storage_bytes = 12,
                      .also_as_shards = true,
                      .stored_as = {TensorId(1), TensorId(1)}});
    const auto report = engine.run(*reader, whole, writer);
    ASSERT_EQ(report.has_value(), other == "abcdefghijkl");
    if (report) continue;
    EXPECT_THAT(report.error().to_string(), HasSubstr("are said to be one and hold different values"));
  }
}

TEST(Reshard, ConvertsDtypes) {
  const TensorInfo from{"w", DType::kFloat32, {2, 3}};
  const TensorInfo to{"w", DType::kBFloat16, {2, 3}};
  const std::array<float, 6> values = {1.0F, -2.5F, 0.0F, 3.0F, 1e30F, -0.0F};
  // The upper halves: all six are bfloat16 values but 1e30, whose bits 7149f2ca round up to 714a.
  const std::array<std::uint16_t, 6> expected = {0x3f80, 0xc020, 0x0000, 0x4040, 0x714a, 0x8000};
  Engine engine;
  const ListedCollection source(2, {cut(from, 0, 2)});
  const ListedCollection target(3, {cut(to, 1, 3)});
  const std::string bytes(reinterpret_cast<const char*>(values.data()), 24);
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {bytes});
  RawWriter refused;
  EXPECT_EQ(engine.run(*reader, target, refused).error().code(), ErrorCode::kInvalidArgument);
  RawWriter writer;
  ReshardOptions options;
  options.cast = true;
  const auto report = engine.run(*reader, target, writer, options);
  ASSERT_TRUE(report) << report.error().to_string();
  const std::string cast(reinterpret_cast<const char*>(expected.data()), 12);
  EXPECT_EQ(files_of(engine.memory_, "/out/target"), expected_files(writer, target, {cast}));
}

TEST(Reshard, CopiesExtraFiles) {
  const TensorInfo info{"w", DType::kInt8, {4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {"abcd"});
  engine.memory_.put_file("/source/config.json", "extra");
  reader->info_.extra_files.push_back({"config.json", 5});
  RawWriter writer;
  ASSERT_TRUE(engine.run(*reader, one, writer));
  EXPECT_EQ(engine.memory_.content("/out/target/config.json").value(), "extra");
}

TEST(Reshard, WritesTiedTensorsOnceIfTheyAreEqual) {
  const TensorInfo head{"head", DType::kInt16, {4, 3}};
  const TensorInfo embedding{"embedding", DType::kInt16, {4, 3}};
  const ListedCollection source(2, {cut(head, 0, 2), cut(embedding, 1, 2)});
  const ListedCollection target(2, {cut(head, 1, 2), cut(embedding, 1, 2)});
  const std::string content = random_bytes(24, 5);
  for (const bool equal : {true, false}) {
    Engine engine;
    std::string other = content;
    if (!equal) other[23] = static_cast<char>(other[23] ^ 1);
    const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {other, content});
    RawWriter writer({.stored_as = {TensorId(1), TensorId(1)}});
    const auto report = engine.run(*reader, target, writer);
    ASSERT_EQ(report.has_value(), equal) << (equal ? report.error().to_string() : "");
    if (equal) {
      EXPECT_EQ(files_of(engine.memory_, "/out/target"), expected_files(writer, target, {other, content}));
      // Five bytes of header, half of the tensor, its CRC: the tied tensor is not there again.
      EXPECT_EQ(engine.memory_.content("/out/target/files/rank0").value().size(), 5U + 8U + 4U);
    } else {
      EXPECT_THAT(report.error().to_string(),
                  HasSubstr("tensors 'embedding' and 'head' are said to be one and hold different values"));
    }
  }
}

TEST(Reshard, RefusesAPlanThatLeavesATensorOut) {
  const TensorInfo a{"a", DType::kInt16, {4, 3}};
  const TensorInfo b{"b", DType::kInt16, {3, 4}};
  const TensorInfo c{"c", DType::kInt16, {3, 4}};
  const ListedCollection whole(1, {cut(a, 0, 1), cut(b, 0, 1), cut(c, 0, 1)});
  const ListedCollection without(1, {cut(a, 0, 1), ListedTensor{b, {}, 0}, cut(c, 0, 1)});
  struct Case {
    const ListedCollection& target;
    std::vector<TensorId> stored_as;
    const char* message;
  };
  const Case cases[] = {
      {without, {}, "no shard of the target holds tensor 'b'"},
      // Another shape; two that stand for each other.
      {whole, {TensorId(0), TensorId(0), TensorId(2)}, "stores tensor 'b' as 'a'"},
      {whole, {TensorId(0), TensorId(2), TensorId(1)}, "stores tensor 'b' as 'c'"},
  };
  for (const Case& one : cases) {
    Engine engine;
    const std::string content = random_bytes(24, 5);
    const auto reader =
        put_raw_checkpoint(engine.memory_, engine.files_, "/source", whole, {content, content, content});
    RawWriter writer({.stored_as = one.stored_as});
    const auto report = engine.run(*reader, one.target, writer);
    ASSERT_FALSE(report) << one.message;
    EXPECT_THAT(report.error().to_string(), HasSubstr(one.message));
    EXPECT_TRUE(engine.memory_.list("/out").value().empty());
  }
}

TEST(Reshard, PutsObjectsIntoTheirFolderOrLeavesItAsItWas) {
  const TensorInfo info{"w", DType::kInt8, {4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  const RawWriterOptions options{.objects = {{"0.pkl", "zero"}, {"a/1.pkl", "one"}}};
  for (const bool folder_exists : {false, true}) {
    for (std::int64_t call = 0;; ++call) {
      Engine engine;
      if (folder_exists) engine.memory_.put_file("/out/objects/other", "kept");
      const auto before = files_of(engine.memory_, "/out");
      const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {"abcd"});
      engine.files_.fail_call(call, EIO);
      RawWriter writer(options);
      const auto report = engine.run(*reader, one, writer);
      if (!report) {
        EXPECT_EQ(files_of(engine.memory_, "/out"), before) << call;
        EXPECT_EQ(engine.memory_.list("/out").value().size(), folder_exists ? 1U : 0U) << call;
        continue;
      }
      EXPECT_EQ(engine.memory_.content("/out/objects/0.pkl").value(), "zero");
      EXPECT_EQ(engine.memory_.content("/out/objects/a/1.pkl").value(), "one");
      if (engine.files_.call_count() <= call) break;
    }
  }
}

TEST(Reshard, MakesObjectsDurableBeforeTheTargetAppears) {
  const TensorInfo info{"w", DType::kInt8, {4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {"abcd"});
  RawWriter writer({.objects = {{"0.pkl", "zero"}}});
  ASSERT_TRUE(engine.run(*reader, one, writer));
  using Kind = FileOperation::Kind;
  bool finished = false;
  bool renamed = false;
  bool name_synced = false;
  bool folder_synced = false;
  bool target_appeared = false;
  for (const FileOperation& operation : engine.files_.operations()) {
    const bool is_object = operation.path.starts_with("/out/objects/0.pkl.tenplex-partial-");
    finished = finished || (operation.kind == Kind::kFinish && is_object);
    name_synced = name_synced || (renamed && operation.kind == Kind::kSyncFolder && operation.path == "/out/objects");
    folder_synced = folder_synced || (operation.kind == Kind::kSyncFolder && operation.path == "/out");
    if (operation.kind != Kind::kRename) continue;
    if (is_object) {
      EXPECT_TRUE(finished);
      renamed = true;
    } else {
      EXPECT_TRUE(renamed && name_synced && folder_synced);
      target_appeared = true;
    }
  }
  EXPECT_TRUE(target_appeared);
}

TEST(Reshard, NeverReplacesAnObject) {
  const TensorInfo info{"w", DType::kInt8, {4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  engine.memory_.put_file("/out/objects/0.pkl", "old");
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {"abcd"});
  RawWriter writer({.objects = {{"0.pkl", "zero"}}});
  EXPECT_EQ(engine.run(*reader, one, writer).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(engine.memory_.content("/out/objects/0.pkl").value(), "old");
}

TEST(Reshard, ComparesStoredCopies) {
  const TensorInfo info{"w", DType::kInt8, {4, 4}};
  const std::string content = random_bytes(16, 1);
  ListedTensor tensor = cut(info, 0, 2);
  tensor.shards[0].holders = {DeviceId(0), DeviceId(1)};
  const ListedCollection source(2, {tensor});
  const ListedCollection target(1, {cut(info, 0, 1)});
  for (const bool damaged : {false, true}) {
    Engine engine;
    const auto reader =
        put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {content}, {.checked = false});
    if (damaged) {
      std::string bytes = engine.memory_.content("/source/rank1").value();
      bytes[7 + 3] = static_cast<char>(bytes[7 + 3] ^ 4);
      engine.memory_.put_file("/source/rank1", bytes);
    }
    RawWriter writer;
    const auto report = engine.run(*reader, target, writer);
    ASSERT_EQ(report.has_value(), !damaged);
    if (!damaged) continue;
    EXPECT_EQ(report.error().code(), ErrorCode::kCorrupt);
    EXPECT_THAT(report.error().to_string(), HasSubstr("tensor 'w': files 'rank0' and 'rank1' hold different bytes"));
    EXPECT_TRUE(engine.memory_.list("/out").value().empty());
  }
}

TEST(Reshard, ComparesChunksThatOverlapInPart) {
  const TensorInfo info{"w", DType::kInt8, {4, 4}};
  const ListedCollection source(
      2, {listed(info, {sub_tensor_of_box({{0, 0}, {3, 4}}), sub_tensor_of_box({{2, 0}, {2, 4}})})});
  const ListedCollection target(1, {cut(info, 0, 1)});
  for (const bool damaged : {false, true}) {
    Engine engine;
    const auto reader =
        put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {random_bytes(16, 1)}, {.checked = false});
    if (damaged) {
      std::string bytes = engine.memory_.content("/source/rank1").value();
      bytes[7] = static_cast<char>(bytes[7] ^ 4);
      engine.memory_.put_file("/source/rank1", bytes);
    }
    RawWriter writer;
    const auto report = engine.run(*reader, target, writer);
    ASSERT_EQ(report.has_value(), !damaged);
    if (!damaged) continue;
    EXPECT_THAT(report.error().to_string(),
                HasSubstr("chunks [0:3, 0:4] in file 'rank0' and [2:4, 0:4] in file 'rank1' hold different bytes"));
  }
}

TEST(Reshard, RefusesItemsWithAWrongCrc) {
  const TensorInfo info{"w", DType::kFloat32, {300, 300}};
  const ListedCollection source(2, {cut(info, 0, 2)});
  const ListedCollection target(2, {cut(info, 1, 2)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {random_bytes(360000, 1)});
  std::string bytes = engine.memory_.content("/source/rank1").value();
  bytes[100000] = static_cast<char>(bytes[100000] ^ 1);
  engine.memory_.put_file("/source/rank1", bytes);
  RawWriter writer;
  const auto report = engine.run(*reader, target, writer);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), ErrorCode::kCorrupt);
  EXPECT_THAT(report.error().to_string(), HasSubstr("file 'rank1', tensor 'w': CRC-32"));
}

TEST(Reshard, RefusesASourceWithHoles) {
  const TensorInfo info{"w", DType::kInt8, {4, 4}};
  const ListedCollection source(1, {listed(info, {sub_tensor_of_box({{0, 0}, {3, 4}})})});
  const ListedCollection target(1, {cut(info, 0, 1)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {random_bytes(16, 1)});
  RawWriter writer;
  const auto report = engine.run(*reader, target, writer);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().to_string(), HasSubstr("'w'"));
}

TEST(Reshard, RefusesChunksOutsideTheirFile) {
  const TensorInfo info{"w", DType::kInt8, {4, 4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {random_bytes(16, 1)});
  reader->locations_[0].offset_bytes = 1000;
  RawWriter writer;
  EXPECT_EQ(engine.run(*reader, one, writer).error().code(), ErrorCode::kCorrupt);
  reader->locations_[0].offset_bytes = -1;
  RawWriter again;
  EXPECT_EQ(engine.run(*reader, one, again).error().code(), ErrorCode::kCorrupt);
}

TEST(Reshard, NeedsSomeMemory) {
  const TensorInfo info{"w", DType::kInt8, {4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {"abcd"});
  RawWriter writer;
  ReshardOptions options;
  options.max_memory_bytes = kMinMemoryBytes - 1;
  EXPECT_EQ(engine.run(*reader, one, writer, options).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Reshard, StopsOnRequestAndLeavesNothing) {
  const TensorInfo info{"w", DType::kInt8, {4}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {"abcd"});
  engine.stop_.request_stop();
  RawWriter writer;
  EXPECT_EQ(engine.run(*reader, one, writer).error().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(engine.memory_.list("/out").value().empty());
}

TEST(Reshard, AnErrorAtAnyCallLeavesTheOldTarget) {
  const TensorInfo info{"w", DType::kFloat32, {8, 6}};
  const ListedCollection source(2, {cut(info, 0, 2)});
  const ListedCollection target(3, {cut(info, 1, 3)});
  for (const int error : {EIO, ENOSPC}) {
    for (std::int64_t call = 0;; ++call) {
      Engine engine;
      engine.memory_.put_file("/out/target", "old");
      const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", source, {random_bytes(192, 1)});
      engine.files_.fail_call(call, error);
      RawWriter writer;
      ReshardOptions options;
      options.overwrite = true;
      const auto report = engine.run(*reader, target, writer, options);
      if (engine.files_.call_count() <= call) break;
      if (report) continue;  // the clean-up before or after it
      EXPECT_EQ(engine.memory_.content("/out/target").value(), "old") << call;
      EXPECT_EQ(engine.memory_.list("/out").value().size(), 1U) << call;
    }
  }
}

TEST(Reshard, RefusesASourceThatChangedMeanwhile) {
  const TensorInfo info{"w", DType::kFloat32, {8, 6}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  Engine engine;
  engine.memory_.put_file("/out/target", "old");
  const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {random_bytes(192, 1)});
  reader->changed_ = true;
  RawWriter writer;
  ReshardOptions options;
  options.overwrite = true;
  EXPECT_EQ(engine.run(*reader, one, writer, options).error().to_string(), "it changed");
  EXPECT_EQ(engine.memory_.content("/out/target").value(), "old");
  EXPECT_EQ(engine.memory_.list("/out").value().size(), 1U);
}

// 205 bytes: 5 + 192 + 4 in the data file, 4 in the manifest.
TEST(Reshard, RefusesATargetThatDoesNotFitBeforeItWritesAByte) {
  const TensorInfo info{"w", DType::kFloat32, {8, 6}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  for (const std::int64_t free_bytes : {204, 205}) {
    Engine engine;
    engine.memory_.put_file("/out/target", std::string(1000, 'o'));  // stays until the end: not free
    engine.memory_.put_free_space("/out", {1, free_bytes, {}});
    const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {random_bytes(192, 1)});
    RawWriter writer;
    ReshardOptions options;
    options.overwrite = true;
    const auto report = engine.run(*reader, one, writer, options);
    EXPECT_EQ(report.has_value(), free_bytes == 205);
    EXPECT_EQ(engine.files_.bytes_written(), free_bytes == 205 ? 205 : 0);
    EXPECT_EQ(engine.memory_.list("/out").value().size(), 1U);
    if (report) continue;
    EXPECT_EQ(report.error().code(), ErrorCode::kResourceExhausted);
    EXPECT_EQ(engine.memory_.content("/out/target").value(), std::string(1000, 'o'));
  }
}

TEST(Reshard, AFullDiskLeavesNothing) {
  const TensorInfo info{"w", DType::kFloat32, {8, 6}};
  const ListedCollection one(1, {cut(info, 0, 1)});
  for (std::int64_t bytes = 0; bytes < 192; bytes += 37) {
    Engine engine;
    const auto reader = put_raw_checkpoint(engine.memory_, engine.files_, "/source", one, {random_bytes(192, 1)});
    engine.files_.limit_written_bytes(bytes);
    RawWriter writer;
    EXPECT_EQ(engine.run(*reader, one, writer).error().code(), ErrorCode::kResourceExhausted);
    EXPECT_TRUE(engine.memory_.list("/out").value().empty());
  }
}

}  // namespace
}  // namespace tenplex
