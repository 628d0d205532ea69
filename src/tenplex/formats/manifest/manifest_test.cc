// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/manifest.h"

#include <gtest/gtest.h>

#include "tenplex/formats/manifest/envelope.h"

namespace tenplex {
namespace {

struct Decoded {
  ManifestHead head;
  std::vector<TensorInfo> tensors;
  std::vector<ManifestShard> shards;
};

Result<Decoded> decode_manifest(std::string_view text) {
  Decoded decoded;
  ManifestVisitor visitor;
  visitor.head = [&](const ManifestHead& head) {
    decoded.head = head;
    return Result<void>();
  };
  visitor.tensor = [&](const TensorInfo& tensor) {
    decoded.tensors.push_back(tensor);
    return Result<void>();
  };
  visitor.shard = [&](const ManifestShard& shard) {
    decoded.shards.push_back(shard);
    return Result<void>();
  };
  TENPLEX_TRY(decode_manifest(text, visitor));
  return decoded;
}

std::string envelope(const std::string& body) { return write_envelope(kManifestFormat, kManifestVersion, body); }

std::string with_shard(const std::string& shard) {
  return envelope(R"({"files":[["a",1],["b",1]],"tensors":[{"name":"w","dtype":"uint8","shape":[4,2],"shards":[)" +
                  shard + "]}]}");
}

// The example of docs/formats/manifest.md.
constexpr std::string_view kExample =
    R"({"format":"tenplex.manifest","version":1,"oldest_reader":1,"length":323,)"
    R"("checksum":"54c5c6754e8b7f2a54d4cbec770db0c7","body":)"
    R"({"container":"safetensors","files":[["device-00000-of-00002.safetensors",118],)"
    R"(["device-00001-of-00002.safetensors",114]],"layout":{"name":"fsdp","text":"","mesh":[["fsdp",2]]},)"
    R"("tensors":[{"name":"w","dtype":"uint8","shape":[4,2],"shards":[{"on":[0],"box":[[0,0],[3,2]]},)"
    R"({"on":[1],"shape":[4],"pieces":[[[3,0],[1,2],0]]}]}]}})";

TEST(Manifest, DecodesTheDocumentedExample) {
  const auto decoded = decode_manifest(kExample);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
  EXPECT_EQ(decoded->head.files[1], (ManifestFile{"device-00001-of-00002.safetensors", 114}));
  EXPECT_EQ(decoded->head.layout, (LayoutNote{"fsdp", "", {{"fsdp", 2}}}));
  EXPECT_EQ(decoded->tensors, (std::vector<TensorInfo>{{"w", DType::kUInt8, {4, 2}}}));
  ASSERT_EQ(decoded->shards.size(), 2U);
  EXPECT_EQ(decoded->shards[0].shard, sub_tensor_of_box({{0, 0}, {3, 2}}));
  EXPECT_EQ(decoded->shards[1].shard, (SubTensor{{4}, {{{{3, 0}, {1, 2}}, 0, {2, 1}}}}));
  EXPECT_EQ(decoded->shards[1].devices, (std::vector<DeviceId>{DeviceId(1)}));
  EXPECT_EQ(decoded->shards[1].key, "w");
}

TEST(Manifest, WritesTheDocumentedExample) {
  ManifestHead head;
  head.files = {{"device-00000-of-00002.safetensors", 118}, {"device-00001-of-00002.safetensors", 114}};
  head.layout = {"fsdp", "", {{"fsdp", 2}}};
  ManifestWriter writer(head);
  writer.begin_tensor({"w", DType::kUInt8, {4, 2}});
  writer.add_shard(sub_tensor_of_box({{0, 0}, {3, 2}}), std::vector<DeviceId>{DeviceId(0)}, "w");
  writer.add_shard({{4}, {{{{3, 0}, {1, 2}}, 0, {2, 1}}}}, std::vector<DeviceId>{DeviceId(1)}, "w");
  writer.end_tensor();
  EXPECT_EQ(std::move(writer).finish().value(), std::string(kExample) + "\n");
}

TEST(Manifest, RefusesANewerVersionAndChangedBodies) {
  std::string newer(kExample);
  newer.replace(newer.find("\"oldest_reader\":1"), 17, "\"oldest_reader\":2");
  EXPECT_EQ(decode_manifest(newer).error().code(), ErrorCode::kUnsupported);
  std::string changed(kExample);
  changed.replace(changed.find("[3,2]"), 5, "[2,2]");
  EXPECT_NE(decode_manifest(changed).error().message().find("checksum"), std::string::npos);
  EXPECT_EQ(decode_manifest("{}").error().code(), ErrorCode::kCorrupt);
}

TEST(Manifest, ChecksEveryShard) {
  EXPECT_TRUE(decode_manifest(with_shard(R"({"on":[0,1],"box":[[0,0],[4,2]]})")).has_value());
  EXPECT_TRUE(decode_manifest(with_shard(R"({"on":[1],"shape":[8],"pieces":[[[0,0],[4,2],0,[1,4]]],"key":"w#1"})"))
                  .has_value());
  EXPECT_TRUE(decode_manifest(with_shard(R"({"on":[1],"shape":[0],"pieces":[]})")).has_value());
  for (const std::string shard : {R"({"on":[2],"box":[[0,0],[4,2]]})",
                                  R"({"on":[-1],"box":[[0,0],[4,2]]})",
                                  R"({"on":[],"box":[[0,0],[4,2]]})",
                                  R"({"on":[1,0],"box":[[0,0],[4,2]]})",
                                  R"({"on":[0,0],"box":[[0,0],[4,2]]})",
                                  R"({"box":[[0,0],[4,2]]})",
                                  R"({"on":[0]})",
                                  R"({"on":[0],"box":[[1,0],[4,2]]})",
                                  R"({"on":[0],"box":[[-1,0],[4,2]]})",
                                  R"({"on":[0],"box":[[0,0],[0,2]]})",
                                  R"({"on":[0],"box":[[0],[4]]})",
                                  R"({"on":[0],"box":[[0,0]]})",
                                  R"({"on":[0],"box":[[9223372036854775807,0],[1,2]]})",
                                  R"({"on":[0],"shape":[8]})",
                                  R"({"on":[0],"shape":[7],"pieces":[[[0,0],[4,2],0]]})",
                                  R"({"on":[0],"shape":[8],"pieces":[[[0,0],[4,2],1]]})",
                                  R"({"on":[0],"shape":[8],"pieces":[[[0,0],[4,2],-1]]})",
                                  R"({"on":[0],"shape":[8],"pieces":[[[0,0],[4,2],0,[-1,1]]]})",
                                  R"({"on":[0],"shape":[8],"pieces":[[[0,0],[4,2],0,[9223372036854775807,1]]]})",
                                  R"({"on":[0],"shape":[-8],"pieces":[]})",
                                  R"({"on":[0],"box":[[0,0],[4,2]],"shape":[4,2]})",
                                  R"({"on":[0],"box":[[0,0],[4,2]],"x":1})",
                                  R"({"on":[0],"on":[0],"box":[[0,0],[4,2]]})"})
    EXPECT_FALSE(decode_manifest(with_shard(shard)).has_value()) << shard;
}

TEST(Manifest, RefusesSizesThatCannotBe) {
  EXPECT_FALSE(decode_manifest(envelope(R"({"files":[["a",-1]],"tensors":[]})")).has_value());
  EXPECT_FALSE(decode_manifest(envelope(R"({"extra_files":[["a",-1]],"tensors":[]})")).has_value());
  EXPECT_FALSE(decode_manifest(envelope(R"({"layout":{"mesh":[["dp",0]]},"tensors":[]})")).has_value());
  EXPECT_TRUE(decode_manifest(envelope(R"({"layout":{"mesh":[["dp",1]]},"tensors":[]})")).has_value());
}

TEST(Manifest, NamesATensorThatIsTooLargeOnce) {
  const std::string body = R"({"tensors":[{"name":"w","dtype":"float32","shape":[1000000000000000000],"shards":[]}]})";
  EXPECT_EQ(decode_manifest(envelope(body)).error().to_string(),
            "tensor 'w': float32 of shape [1000000000000000000] has 2^60 bytes or more");
  const std::string shard = R"({"on":[0],"shape":[2000000000000000000],"pieces":[]})";
  EXPECT_EQ(decode_manifest(with_shard(shard)).error().to_string(),
            "tensor 'w': shard 0: uint8 of shape [2000000000000000000] has 2^60 bytes or more");
}

TEST(Manifest, RefusesPathsThatLeaveTheFolder) {
  EXPECT_FALSE(decode_manifest(envelope(R"({"files":[["../a",1]],"tensors":[]})")).has_value());
  EXPECT_FALSE(decode_manifest(envelope(R"({"files":[["/a",1]],"tensors":[]})")).has_value());
  EXPECT_FALSE(decode_manifest(envelope(R"({"extra_files":[["../a",1]],"tensors":[]})")).has_value());
  EXPECT_TRUE(decode_manifest(envelope(R"({"files":[["a",1]],"later":[1,{"x":2}],"tensors":[]})")).has_value());
}

}  // namespace
}  // namespace tenplex
