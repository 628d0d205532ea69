// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_side.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(TorchSide, HoldsTextInOrder) {
  EXPECT_EQ(encode_torch_side({{"format", "pt"}, {"b", "\"x\"\n"}}),
            R"({"version":1,"oldest_reader":1,"metadata":{"format":"pt","b":"\"x\"\n"}})");
  const auto decoded = decode_torch_side(R"({"version":7,"oldest_reader":1,"new":[1],"metadata":{"z":"1","a":""}})");
  ASSERT_TRUE(decoded.has_value()) << decoded.error().to_string();
  EXPECT_EQ(*decoded, (std::vector<std::pair<std::string, std::string>>{{"z", "1"}, {"a", ""}}));
}

TEST(TorchSide, SaysNothingWhereThereIsNothingToSay) {
  EXPECT_EQ(encode_torch_side({}), "");
  EXPECT_EQ(encode_torch_side({{"format", "pt"}}), "");
  EXPECT_EQ(encode_torch_side({{"DCP_VERSION", "1"}, {"format", "pt"}}), "");
}

TEST(TorchSide, RefusesDamageAndNewerVersions) {
  EXPECT_EQ(decode_torch_side(R"({"oldest_reader":2,"metadata":{}})").error().code(), ErrorCode::kUnsupported);
  for (const char* text : {"", "[]", "{}", R"({"oldest_reader":1,"metadata":{"a":1}})",
                           R"({"oldest_reader":1,"metadata":[]})", R"({"oldest_reader":1}x)"})
    EXPECT_EQ(decode_torch_side(text).error().code(), ErrorCode::kCorrupt) << text;
}

}  // namespace
}  // namespace tenplex
