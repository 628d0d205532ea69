// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tenplex/formats/hf/hf_format.h"
#include "tenplex/formats/hf/hf_index.h"
#include "tenplex/formats/safetensors/header.h"
#include "tenplex/formats/testing/carry_out.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"

namespace tenplex {
namespace {

std::string weights(const std::vector<std::string>& names) {
  std::vector<TensorInfo> tensors;
  std::string data;
  for (const std::string& name : names) {
    tensors.push_back({name, DType::kUInt8, {4}});
    data += name + std::string(4 - name.size(), '.');
  }
  return safetensors::build_header(tensors, {{"format", "pt"}}).value() + data;
}

struct Model {
  MemoryFileSystem files;

  Model() {
    files.put_file("/m/config.json", "{}");
    files.put_file("/m/1_Pooling/config.json", "[]");
    files.put_file("/m/model-00001-of-00002.safetensors", weights({"a", "b"}));
    files.put_file("/m/model-00002-of-00002.safetensors", weights({"c"}));
    put_index(12, "model-00002-of-00002.safetensors");
  }

  void put_index(int total_size, const std::string& file_of_c) {
    files.put_file(
        "/m/model.safetensors.index.json",
        fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{"a":"model-00001-of-00002.safetensors",)"
                    R"("b":"model-00001-of-00002.safetensors","c":"{}"}}}})",
                    total_size, file_of_c));
  }

  Result<std::unique_ptr<CheckpointReader>> open() { return open_checkpoint(files, "/m", {}); }
};

TEST(HfReader, ReadsShardsByTheIndexAndTheFilesBesideThem) {
  Model model;
  const auto reader = model.open();
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  const CheckpointInfo& info = (*reader)->info();
  EXPECT_EQ(info.format, "hf");
  ASSERT_EQ(info.tensors.size(), 3U);
  EXPECT_EQ(info.chunks[2].file, 1);
  EXPECT_EQ(read_string(**(*reader)->file(1), (*reader)->locate(2)->offset_bytes, 4).value(), "c...");
  ASSERT_EQ(info.extra_files.size(), 2U);
  EXPECT_EQ(info.extra_files[0].path, "1_Pooling/config.json");
  EXPECT_EQ((*reader)->read_extra_file(info.extra_files[1]).value(), "{}");
  EXPECT_TRUE(info.problems.empty());
}

TEST(HfReader, NotesAWrongTotalAndAMissingIndex) {
  Model model;
  model.put_index(13, "model-00002-of-00002.safetensors");
  EXPECT_EQ((*model.open())->info().problems,
            std::vector<std::string>{"the index gives 13 bytes as total_size, the tensors have 12"});
  ASSERT_TRUE(model.files.remove_all("/m/model.safetensors.index.json").has_value());
  const auto reader = model.open();
  ASSERT_TRUE(reader.has_value()) << reader.error().to_string();
  EXPECT_EQ((*reader)->info().tensors.size(), 3U);
  EXPECT_EQ((*reader)->info().problems.size(), 1U);
}

TEST(HfReader, RefusesWhatDoesNotFitTogether) {
  Model absent_file;
  absent_file.put_index(12, "model-00003-of-00002.safetensors");
  EXPECT_EQ(absent_file.open().error().code(), ErrorCode::kNotFound);
  Model wrong_file;
  wrong_file.put_index(12, "model-00001-of-00002.safetensors");
  EXPECT_EQ(wrong_file.open().error().code(), ErrorCode::kCorrupt);
  Model outside;
  outside.put_index(12, "../x.safetensors");
  EXPECT_EQ(outside.open().error().code(), ErrorCode::kInvalidArgument);
  Model twice;
  twice.files.put_file("/m/model-00002-of-00002.safetensors", weights({"c", "a"}));
  EXPECT_EQ(twice.open().error().code(), ErrorCode::kCorrupt);
  Model lost;
  lost.files.put_file("/m/model-00002-of-00002.safetensors", weights({"d"}));
  EXPECT_EQ(lost.open().error().code(), ErrorCode::kCorrupt);
  Model missing_shard;
  ASSERT_TRUE(missing_shard.files.remove_all("/m/model-00002-of-00002.safetensors").has_value());
  EXPECT_EQ(missing_shard.open().error().code(), ErrorCode::kNotFound);
  ASSERT_TRUE(missing_shard.files.remove_all("/m/model.safetensors.index.json").has_value());
  EXPECT_EQ(missing_shard.open().error().code(), ErrorCode::kNotFound);
  Model empty_index;
  empty_index.files.put_file("/m/model.safetensors.index.json", R"({"weight_map":{}})");
  EXPECT_EQ(empty_index.open().error().code(), ErrorCode::kCorrupt);
  Model linked;
  linked.files.put_link("/m/tokenizer.json", "../../etc/passwd");
  EXPECT_NE(linked.open().error().to_string().find("--follow-links"), std::string::npos);
}

struct Written {
  CheckpointInfo source;
  std::unique_ptr<ExplicitCollection> target;

  explicit Written(int devices = 1) {
    source.tensors = {{"a", DType::kUInt8, {4}}, {"b", DType::kInt16, {3}}, {"c", DType::kUInt8, {2}}};
    ExplicitCollectionBuilder builder(source.tensors, devices, {});
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(k), Box::whole(source.tensors[k].shape)).has_value());
    target = std::move(builder).finish().value();
  }

  Result<std::map<std::string, std::string>> write(std::int64_t max_file_bytes) {
    const auto writer = hf_format().make_writer();
    WriteRequest request;
    request.source = &source;
    request.target = target.get();
    request.max_file_bytes = max_file_bytes;
    TENPLEX_ASSIGN_OR_RETURN(const OutputPlan plan, writer->prepare(request));
    return carry_out(plan, *writer, *target, {"aaaa", "bbbbbb", "cc"}, {"{}"});
  }
};

TEST(HfWriter, WritesOneFileWhereAllFits) {
  Written job;
  job.source.extra_files = {{"config.json", 2}};
  const auto files = job.write(0);
  ASSERT_TRUE(files.has_value()) << files.error().to_string();
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ(files->at("config.json"), "{}");
  EXPECT_TRUE(files->at("model.safetensors").ends_with("bbbbbbaaaacc"));
}

TEST(HfWriter, StartsAFileWhereTheNextTensorWouldExceedTheLimit) {
  const auto files = Written().write(8);
  ASSERT_TRUE(files.has_value()) << files.error().to_string();
  EXPECT_TRUE(files->at("model-00001-of-00002.safetensors").ends_with("aaaa"));
  EXPECT_TRUE(files->at("model-00002-of-00002.safetensors").ends_with("bbbbbbcc"));
  EXPECT_EQ(files->at("model.safetensors.index.json"),
            "{\n  \"metadata\": {\n    \"total_parameters\": 9,\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"model-00001-of-00002.safetensors\",\n    \"b\": \"model-00002-of-00002.safetensors\",\n"
            "    \"c\": \"model-00002-of-00002.safetensors\"\n  }\n}\n");
  EXPECT_EQ(Written().write(1)->size(), 4U);
}

TEST(HfWriter, RefusesWhatHfCannotHold) {
  Written job;
  StateGraph& graph = job.source.state;
  graph.root = graph.add_dict({graph.add_string("step"), graph.add_int(3)});
  const auto refused = job.write(0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(), "hf holds named tensors and nothing else: 'step' is an integer");
  EXPECT_EQ(Written(2).write(0).error().code(), ErrorCode::kUnsupported);
  Written named;
  named.source.extra_files = {{"model.safetensors", 2}};
  EXPECT_EQ(named.write(0).error().code(), ErrorCode::kUnsupported);
}

TEST(HfIndex, ReadsTotalsWrittenAsAFloatAndRefusesDamage) {
  EXPECT_EQ(hf::parse_index(R"({"metadata":{"total_size":1.2e3},"weight_map":{}})")->total_size, 1200);
  EXPECT_FALSE(hf::parse_index(R"({"weight_map":{"a":"x","a":"y"}})").has_value());
  EXPECT_FALSE(hf::parse_index(R"({"metadata":{}})").has_value());
  EXPECT_FALSE(hf::parse_index(R"({"weight_map":{"a":"/x"}})").has_value());
  EXPECT_FALSE(hf::parse_index(R"({"metadata":{"total_size":-1},"weight_map":{}})").has_value());
}

TEST(HfIndex, KnowsShardNames) {
  const auto name = hf::parse_shard_name("model-00002-of-00005.safetensors");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->stem, "model");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 5);
  EXPECT_FALSE(hf::parse_shard_name("model-2-of-5.safetensors").has_value());
  EXPECT_FALSE(hf::parse_shard_name("-00002-of-00005.safetensors").has_value());
  EXPECT_FALSE(hf::parse_shard_name("model--0000-of-00005.safetensors").has_value());
  EXPECT_FALSE(hf::parse_shard_name("model-00002-of--0000.safetensors").has_value());
  EXPECT_EQ(hf::shard_name(2, 5), "model-00002-of-00005.safetensors");
}

}  // namespace
}  // namespace tenplex
