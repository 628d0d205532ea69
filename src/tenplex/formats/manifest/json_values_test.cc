// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/json_values.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

Result<void> read_pair(std::string_view text, std::string* name, Dims* dims) {
  JsonReader json(text);
  TENPLEX_TRY(read_list(json, name, dims));
  return json.finish();
}

TEST(JsonValues, AListHasExactlyItsParts) {
  std::string name;
  Dims dims;
  ASSERT_TRUE(read_pair(R"(["a",[2,3]])", &name, &dims).has_value());
  EXPECT_EQ(name, "a");
  EXPECT_EQ(dims, (Dims{2, 3}));
  ASSERT_TRUE(read_pair(R"(["",[]])", &name, &dims).has_value());
  EXPECT_EQ(dims, Dims());
  for (const char* text : {"[]", R"(["a"])", R"(["a",[2],1])", R"(["a",2])", R"([[2],"a"])", "{}"})
    EXPECT_EQ(read_pair(text, &name, &dims).error().code(), ErrorCode::kCorrupt) << text;
  EXPECT_EQ(read_pair(R"(["a",[1,1,1,1,1,1,1,1,1]])", &name, &dims).error().code(), ErrorCode::kUnsupported);
}

TEST(JsonValues, TextsKeepTheirOrderAndReadBack) {
  const JsonTexts texts = {{"b", "\"\n"}, {"", ""}, {"a\\", "é"}};
  std::string text;
  JsonWriter writer(&text);
  append_texts(writer, texts);
  EXPECT_EQ(text, R"({"b":"\"\n","":"","a\\":"é"})");
  JsonReader json(text);
  JsonTexts back;
  ASSERT_TRUE(read_value(json, &back).has_value());
  EXPECT_EQ(back, texts);
}

TEST(JsonValues, AMemberThatFailsEndsTheObject) {
  JsonReader json(R"({"a":1,"b":"x","c":2})");
  std::int64_t sum = 0;
  const auto read = for_each_member(json, [&](std::string_view) -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, json.integer());
    sum += value;
    return {};
  });
  EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(sum, 1);
}

}  // namespace
}  // namespace tenplex
