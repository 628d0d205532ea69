// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Power cuts at every point of a whole run, for every target format: real readers and writers over a record of the file
// operations, replayed by io/crash_model.h. What is found under the target's name afterwards is the old target (or
// nothing) or the new one, with its objects.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/io/testing/crash_model.h"
#include "tenplex/io/testing/recording_file_system.h"
#include "tenplex/plan/testing/listed_collection.h"
#include "tenplex/reshard/reshard.h"
#include "tenplex/reshard/testing/raw_checkpoint.h"
#include "tenplex/reshard/verify.h"

namespace tenplex {
namespace {

using Survivors = CrashModel::Survivors;
using ::testing::AnyOf;

constexpr std::uint64_t kSeeds = 12;
const std::string kTarget = "/out/target";
const std::string kObjects = "/out/objects";

struct CrashCase {
  std::string name;
  std::string format;
  bool tree = true;  ///< the source has a tree with objects; else a file of notes beside the tensors
  int devices = 1;
  std::int64_t max_file_bytes = 0;
};

const std::vector<CrashCase>& cases() {
  static const std::vector<CrashCase> kCases = {
      {"SafetensorsFileWithObjects", "safetensors"},
      {.name = "SafetensorsFileWithExtraFiles", .format = "safetensors", .tree = false},
      {.name = "SafetensorsFolder", .format = "safetensors", .devices = 2},
      {.name = "HfWithSeveralFiles", .format = "hf", .tree = false, .max_file_bytes = 80},
      {"Torch", "torch"},
      {.name = "Dcp", .format = "dcp", .devices = 2},
      {.name = "MegatronDist", .format = "megatron-dist", .tree = false, .devices = 2},
  };
  return kCases;
}

/// Every tensor with a first dimension cut into rows, the others on every device.
ListedCollection rows(std::span<const TensorInfo> tensors, int devices) {
  std::vector<ListedTensor> listed;
  for (const TensorInfo& info : tensors) {
    ListedTensor& tensor = listed.emplace_back(ListedTensor{info, {}, 0});
    if (info.shape.empty()) tensor.shards.push_back({whole_tensor({}), {}});
    for (int device = 0; device < devices; ++device) {
      if (info.shape.empty()) {
        tensor.shards[0].holders.emplace_back(device);
        continue;
      }
      Box box = Box::whole(info.shape);
      box.offset[0] = info.shape[0] * device / devices;
      box.extent[0] = info.shape[0] * (device + 1) / devices - box.offset[0];
      tensor.shards.push_back({sub_tensor_of_box(box), {DeviceId(device)}});
    }
  }
  return {devices, std::move(listed)};
}

/// {"model": {"a": tensor, …}, "rules": [m.Rule(0), m.Rule(1), …]}
StateGraph tree_of(std::span<const TensorInfo> tensors, std::int64_t rule_count) {
  StateGraph graph;
  std::vector<NodeId> model;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    model.push_back(graph.add_string(tensors[t].name.substr(sizeof("model"))));
    model.push_back(graph.add_tensor({.tensor = TensorId(t),
                                      .storage = static_cast<std::uint32_t>(t),
                                      .strides = row_major_strides(tensors[t].shape)}));
  }
  std::vector<NodeId> rules;
  for (std::int64_t number = 0; number < rule_count; ++number) {
    ObjectParts rule;
    rule.callable = graph.add_global("m", "Rule");
    rule.arguments = graph.add_tuple({graph.add_int(number)});
    rules.push_back(graph.add_object(std::move(rule)));
  }
  const NodeId model_key = graph.add_string("model");
  const NodeId model_dict = graph.add_dict(std::move(model));
  const NodeId rules_key = graph.add_string("rules");
  graph.root = graph.add_dict({model_key, model_dict, rules_key, graph.add_list(std::move(rules))});
  return graph;
}

class CrashReplay : public ::testing::TestWithParam<std::tuple<std::size_t, bool>> {
 public:
  void SetUp() override {
    memory_.put_folder("/out");
    model_.put_folder("/out");
    new_ = source("/source/new", 1, 3);
    old_ = source("/source/old", 100, 1);
    ASSERT_TRUE(new_ && old_);
    if (!overwrite()) return;
    const auto written = write(memory_, *old_);
    ASSERT_TRUE(written) << written.error().to_string();
    for (const std::string& file : memory_.files_below("/out"))
      model_.put_file("/out/" + file, memory_.content("/out/" + file).value());
  }

  static const CrashCase& parameters() { return cases()[std::get<0>(GetParam())]; }
  static bool overwrite() { return std::get<1>(GetParam()); }
  static std::string before() { return overwrite() ? "old" : "nothing"; }

  Result<ReshardReport> write_with(FileSystem& files, const CheckpointReader& from, std::string_view format,
                                   const std::string& path, int devices, ReshardOptions options) {
    const auto writer = find_format(format).value()->make_writer();
    const ListedCollection target = rows(from.info().tensors, devices);
    WriteRequest request;
    request.source = &from.info();
    request.target = &target;
    request.target_name = "target";
    if (path == kTarget) request.objects_folder = kObjects;
    request.max_file_bytes = parameters().max_file_bytes;
    options.max_memory_bytes = 2 << 20;
    return reshard(from, target, *writer, request, files, path, options, executor_, progress_);
  }

  Result<ReshardReport> write(FileSystem& files, const CheckpointReader& from, bool sync = true) {
    ReshardOptions options;
    options.overwrite = overwrite();
    options.sync = sync;
    return write_with(files, from, parameters().format, kTarget, parameters().devices, options);
  }

  /// Files in the folder of objects: three rules, or the notes of the new and of the old.
  static std::size_t objects_expected() {
    if (parameters().format != "safetensors" || parameters().devices > 1) return 0;
    return parameters().tree ? 3 : overwrite() ? 2 : 1;
  }

  /// A checkpoint that a writer made, opened: torch for a tree, else hf.
  std::unique_ptr<CheckpointReader> source(const std::string& path, std::uint32_t seed, std::int64_t rules) {
    const std::vector<TensorInfo> tensors = {
        {"model.a", DType::kFloat32, {6, 40}}, {"model.b", DType::kBFloat16, {8}}, {"model.c", DType::kInt64, {}}};
    std::vector<std::string> contents;
    for (const TensorInfo& tensor : tensors) contents.push_back(random_bytes(size_bytes(tensor), seed++));
    const auto raw = put_raw_checkpoint(memory_, memory_, path + "-raw", rows(tensors, 1), contents);
    if (parameters().tree) raw->info_.state = tree_of(tensors, rules);
    const auto written = write_with(memory_, *raw, parameters().tree ? "torch" : "hf", path, 1, {});
    EXPECT_TRUE(written) << written.error().to_string();
    if (!parameters().tree) memory_.put_file(fmt::format("{}/notes{}.txt", path, rules), "notes");
    auto opened = open_checkpoint(memory_, path, {});
    EXPECT_TRUE(opened) << opened.error().to_string();
    return opened ? *std::move(opened) : nullptr;
  }

  bool holds(const CheckpointReader& found, const CheckpointReader& expected) {
    const auto report = verify(expected, found, {.max_memory_bytes = kMinMemoryBytes}, executor_, progress_);
    if (!report || !report->equal() || report->objects_compared != parameters().tree) return false;
    if (found.info().extra_files.size() != expected.info().extra_files.size()) return false;
    for (std::size_t k = 0; k < expected.info().extra_files.size(); ++k) {
      const auto bytes = found.read_extra_file(found.info().extra_files[k]);
      if (!bytes || *bytes != expected.read_extra_file(expected.info().extra_files[k]).value()) return false;
    }
    return true;
  }

  /// What a reader finds at `path`: "new", "old", "nothing", or what is wrong.
  std::string state_of(MemoryFileSystem& files, const std::string& path) {
    const auto status = files.status(path);
    if (!status) return "nothing";
    ReadOptions reading;
    reading.objects_folder = kObjects;
    const auto found = open_checkpoint(files, path, reading);
    if (!found) return "damaged: " + found.error().to_string();
    if (holds(**found, *new_)) return "new";
    return holds(**found, *old_) ? "old" : "opens, and holds something else";
  }

  /// False for one file, and for hf, whose reader takes a folder without its index if the names are complete.
  static bool needs_manifest() { return parameters().devices > 1; }

  /// The target is whole or not there. Where a manifest says that a folder is complete, whatever else opens is whole.
  void expect_whole(Survivors survivors, std::uint64_t seed = 0) {
    const auto files = model_.crash(survivors, seed);
    EXPECT_THAT(state_of(*files, kTarget), AnyOf(before(), "new"));
    if (!needs_manifest()) return;
    const auto entries = files->list("/out");
    ASSERT_TRUE(entries);
    for (const FolderEntry& entry : *entries) {
      const std::string path = "/out/" + entry.name;
      if (path == kTarget || path == kObjects || !files->list(path)) continue;
      EXPECT_THAT(state_of(*files, path), AnyOf("old", "new", ::testing::StartsWith("damaged: "))) << path;
    }
  }

  MemoryFileSystem memory_;
  CrashModel model_;
  Executor executor_{1};
  Progress progress_;
  std::unique_ptr<CheckpointReader> new_;
  std::unique_ptr<CheckpointReader> old_;
};

INSTANTIATE_TEST_SUITE_P(Formats, CrashReplay,
                         ::testing::Combine(::testing::Range<std::size_t>(0, 7), ::testing::Bool()),
                         [](const auto& which) {
                           return cases()[std::get<0>(which.param)].name +
                                  (std::get<1>(which.param) ? "OverAnOldOne" : "Fresh");
                         });

TEST_P(CrashReplay, LeavesTheOldOrTheNewAtEveryPoint) {
  RecordingFileSystem files(memory_);
  const auto written = write(files, *new_);
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(memory_.files_below(kObjects).size(), objects_expected());
  EXPECT_EQ(state_of(*model_.crash(Survivors::kNothing), kTarget), before());
  const std::vector<FileOperation> operations = files.operations();
  for (std::size_t done = 0; done < operations.size() && !HasFailure(); ++done) {
    SCOPED_TRACE(fmt::format("after operation {} of {}, {} '{}'", done + 1, operations.size(),
                             static_cast<int>(operations[done].kind), operations[done].path));
    model_.apply(operations[done]);
    for (const Survivors survivors :
         {Survivors::kNothing, Survivors::kEverything, Survivors::kNamesOnly, Survivors::kDataOnly})
      expect_whole(survivors);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) expect_whole(Survivors::kSome, seed);
  }
  EXPECT_EQ(state_of(*model_.crash(Survivors::kNothing), kTarget), "new");
}

// The check above can fail: without syncs the names may be there and the bytes not.
TEST_P(CrashReplay, FindsFilesThatWereNotSynced) {
  RecordingFileSystem files(memory_);
  ASSERT_TRUE(write(files, *new_, false));
  for (const FileOperation& operation : files.operations()) model_.apply(operation);
  EXPECT_EQ(state_of(*model_.crash(Survivors::kEverything), kTarget), "new");
  EXPECT_THAT(state_of(*model_.crash(Survivors::kNamesOnly), kTarget), ::testing::Not(AnyOf("old", "new", "nothing")));
}

}  // namespace
}  // namespace tenplex
