// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/json_reader.h"

#include <gtest/gtest.h>

#include "tenplex/formats/manifest/base64.h"
#include "tenplex/formats/manifest/json_writer.h"

namespace tenplex {
namespace {

/// "" if the text is one JSON value, else the error's message.
std::string check(std::string_view text) {
  JsonReader json(text);
  if (const auto value = json.skip(); !value) return value.error().message();
  const auto end = json.finish();
  return end ? "" : end.error().message();
}

std::string read_text(std::string_view json_text) {
  JsonReader json(json_text);
  const auto text = json.string();
  return text ? std::string(*text) : "error: " + text.error().message();
}

TEST(JsonReader, AcceptsEveryKindOfValue) {
  for (const std::string_view text : {"null", "true", "false", "0", "-1.5e+3", R"("a")", "[]", "{}", "[1,[2],{}]",
                                      R"( {"a" : [1 , 2] , "b":{"a":null}} )"})
    EXPECT_EQ(check(text), "") << text;
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (const std::string_view text : {"",
                                      " ",
                                      "{",
                                      "[",
                                      "[1,]",
                                      "{,}",
                                      R"({"a":1,})",
                                      R"({"a"})",
                                      R"({"a":})",
                                      "{1:2}",
                                      "01",
                                      "-",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "+1",
                                      "nul",
                                      "tru",
                                      "NaN",
                                      "Infinity",
                                      "[1 2]",
                                      "1 2",
                                      "// c\n1",
                                      "'a'",
                                      R"("a)",
                                      "\"a\tb\"",
                                      R"("\x41")",
                                      R"("\u12g4")",
                                      "\"\xff\"",
                                      "\"\xc0\xaf\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\""})
    EXPECT_NE(check(text), "") << text;
}

TEST(JsonReader, NamesADuplicateKeyAtAnyLevel) {
  EXPECT_EQ(check(R"({"a":{"b":1,"c":2,"b":3}})"), "JSON byte 24: duplicate key 'b'");
  EXPECT_NE(check(R"({"k1":1,"k2":1,"k3":1,"k4":1,"k5":1,"k6":1,"k7":1,"k8":1,"k9":1,"\u006b1":1})"), "");
  EXPECT_EQ(check(R"([{"a":1},{"a":1}])"), "");
}

TEST(JsonReader, DecodesEscapes) {
  EXPECT_EQ(read_text(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_text(R"("\u00e9\u20ac\ud83d\ude00")"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(read_text(R"("\ud83d")").substr(0, 5), "error");
  EXPECT_EQ(read_text(R"("\ude00\ud83d")").substr(0, 5), "error");
}

TEST(JsonReader, HoldsIntegersToSixtyFourBits) {
  EXPECT_EQ(JsonReader("-9223372036854775808").integer().value(), INT64_MIN);
  EXPECT_FALSE(JsonReader("9223372036854775808").integer().has_value());
  EXPECT_FALSE(JsonReader("1.0").integer().has_value());
  EXPECT_FALSE(JsonReader("1e3").integer().has_value());
}

TEST(JsonReader, StopsAtItsDepthLimitWithoutRecursion) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(check(deep), "JSON byte 65: nested deeper than 64");
  EXPECT_EQ(check(std::string(64, '[') + std::string(64, ']')), "");
}

TEST(JsonWriter, EscapesWhatTheReaderNeeds) {
  const std::string text = std::string("a\"\\\n\x01\x1f") + "\xc3\xa9";
  std::string json;
  append_json_string(&json, text);
  EXPECT_EQ(json, "\"a\\\"\\\\\\n\\u0001\\u001f\xc3\xa9\"");
  EXPECT_EQ(read_text(json), text);
}

TEST(Base64, AgreesWithTheVectorsOfRfc4648) {
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(to_base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(from_base64("Zm9vYg=="), "foob");
  EXPECT_EQ(from_base64(""), "");
}

TEST(Base64, RefusesTextThatItWouldNotWrite) {
  for (const std::string_view text : {"Zg", "Zg=", "Z===", "Zh==", "Zm9vYmF=", "Zg==Zg==", "Z*==", "===="})
    EXPECT_FALSE(from_base64(text).has_value()) << text;
}

}  // namespace
}  // namespace tenplex
