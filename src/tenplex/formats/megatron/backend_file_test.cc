// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/backend_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/formats/megatron/source_form.h"

namespace tenplex::megatron {
namespace {

using ::testing::HasSubstr;

// As json.dump of megatron-core 0.16.1 and 0.19.2 writes it.
const std::string kOld =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1})";
const std::string kNew = R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1})";

TEST(BackendFile, IsTheTextOfTheLibrary) {
  EXPECT_EQ(encode_backend_file(true, {}), kOld);
  EXPECT_EQ(encode_backend_file(false, {}), kNew);
}

TEST(BackendFile, KeepsOtherMembers) {
  const auto file = decode_backend_file(R"({"sharded_backend":"torch_dist","a \" b":{"x":[1,null]},"z":1.50})");
  ASSERT_TRUE(file) << file.error().to_string();
  const JsonTexts expected = {{"a \" b", R"({"x":[1,null]})"}, {"z", "1.50"}};
  EXPECT_EQ(file->others, expected);
  EXPECT_EQ(encode_backend_file(false, file->others),
            R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "a \" b": {"x":[1,null]}, "z": 1.50})");
}

TEST(BackendFile, NamesOtherBackendsAndVersions) {
  const auto refusal = [](std::string_view text) {
    const auto file = decode_backend_file(text);
    EXPECT_FALSE(file) << text;
    EXPECT_EQ(file.error().code(), ErrorCode::kUnsupported) << text;
    return file.error().to_string();
  };
  EXPECT_THAT(refusal(R"({"sharded_backend": "zarr"})"), HasSubstr("'zarr' of version 1"));
  EXPECT_THAT(refusal(R"({"sharded_backend": "torch_dist", "sharded_backend_version": 2})"), HasSubstr("version 2"));
  EXPECT_THAT(refusal(R"({"sharded_backend": "torch_dist", "common_backend": "x"})"), HasSubstr("common_backend 'x'"));
}

TEST(BackendFile, RefusesWhatIsNone) {
  for (const char* text : {"", "[]", "{}", "{\"sharded_backend\": 1}", "{\"sharded_backend\": \"torch_dist\"} x",
                           "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": \"1\"}"})
    EXPECT_EQ(decode_backend_file(text).error().code(), ErrorCode::kCorrupt) << text;
  for (std::size_t size = 0; size < kOld.size(); ++size) EXPECT_FALSE(decode_backend_file(kOld.substr(0, size)));
}

TEST(SourceForm, TravelsAsMetadata) {
  SourceForm form;
  EXPECT_TRUE(encode_form(form).empty());
  form.has_common_file = false;
  form.has_integrity = true;
  form.others = {{"z", "[1]"}};
  JsonTexts entries = encode_form(form);
  entries.emplace_back("format", "pt");
  const auto back = decode_form(entries);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_FALSE(back->has_common_file);
  EXPECT_TRUE(back->has_integrity);
  EXPECT_EQ(back->others, form.others);
  EXPECT_FALSE(decode_form({{"megatron-dist.metadata", "{"}}));
}

}  // namespace
}  // namespace tenplex::megatron
