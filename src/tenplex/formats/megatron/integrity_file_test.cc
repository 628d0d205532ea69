// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/integrity_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/base/sha256.h"

namespace tenplex::megatron {
namespace {

using ::testing::HasSubstr;

const std::string kSum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(IntegrityFile, IsTheTextOfTheLibrary) {
  // json.dump(…, indent=2)
  const std::string text = "{\n  \"algorithm\": \"sha256\",\n  \"files\": {\n    \".metadata\": \"" + kSum +
                           "\",\n    \"a\\\"\": \"" + kSum + "\"\n  }\n}";
  const JsonTexts sums = {{".metadata", kSum}, {"a\"", kSum}};
  EXPECT_EQ(encode_integrity(sums), text);
  const auto back = decode_integrity(text);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, sums);
  EXPECT_EQ(encode_integrity({}), "{\n  \"algorithm\": \"sha256\",\n  \"files\": {}\n}");
}

TEST(IntegrityFile, NamesAnotherAlgorithm) {
  const auto file = decode_integrity(R"({"algorithm": "md5", "files": {}})");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(file.error().to_string(), HasSubstr("'md5'"));
}

TEST(IntegrityFile, RefusesWhatIsNone) {
  for (const char* text : {"", "{}", "[]", R"({"files": []})", R"({"files": {"a": "12"}})", R"({"files": {"a": 1}})",
                           R"({"files": {"a": "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"}})"})
    EXPECT_EQ(decode_integrity(text).error().code(), ErrorCode::kCorrupt) << text;
}

}  // namespace
}  // namespace tenplex::megatron
