// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/header.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex::safetensors {
namespace {

std::string file_of(const std::string& json, const std::string& data) {
  std::string file(8, '\0');
  for (std::size_t k = 0; k < 8; ++k) file[k] = static_cast<char>(json.size() >> (8 * k) & 0xFF);
  return file + json + data;
}

Result<Header> read(const std::string& content) {
  MemoryFileSystem files;
  files.put_file("/x.safetensors", content);
  const auto source = files.open("/x.safetensors");
  return read_header(*source.value(), 1 << 20);
}

/// "" or the message of the error that the header gives.
std::string header_error_of(const std::string& json, std::int64_t data_bytes) {
  const auto header = parse_header(json, data_bytes);
  return header ? "" : header.error().to_string();
}

std::string entry(const std::string& dtype, const std::string& shape, std::int64_t begin, std::int64_t end) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", dtype, shape, begin, end);
}

// The example of docs/formats/safetensors.md.
TEST(Header, DecodesTheDocumentedExample) {
  const std::string json = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("b":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}}      )";
  ASSERT_EQ(json.size(), 144U);
  const auto header = read(file_of(json, std::string("\x00\x00\x80\x3f\x00\x00\x00\x40\x01", 9)));
  ASSERT_TRUE(header.has_value()) << header.error().to_string();
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].info, (TensorInfo{"w", DType::kFloat32, {2}}));
  EXPECT_EQ(header->tensors[1].info, (TensorInfo{"b", DType::kBool, {}}));
  EXPECT_EQ(header->tensors[1].begin, 8);
  EXPECT_EQ(header->data_start, 152);
  EXPECT_EQ(header->find_metadata("format"), "pt");
}

TEST(Header, IsRefusedWhenCutAnywhere) {
  const std::string whole = file_of("{\"w\":" + entry("F32", "[2]", 0, 8) + "}", "12345678");
  ASSERT_TRUE(read(whole).has_value());
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read(whole.substr(0, size)).has_value()) << size;
  EXPECT_FALSE(read(whole + "x").has_value());
}

TEST(Header, KnowsTheSizeOfEveryDtype) {
  const std::vector<std::pair<const char*, std::int64_t>> bits = {
      {"U64", 64},    {"I64", 64},        {"F64", 64},    {"C64", 64},    {"F32", 32},    {"U32", 32},
      {"I32", 32},    {"BF16", 16},       {"F16", 16},    {"U16", 16},    {"I16", 16},    {"F8_E5M2FNUZ", 8},
      {"I8", 8},      {"F8_E4M3FNUZ", 8}, {"F8_E8M0", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"U8", 8},
      {"F6_E3M2", 6}, {"F6_E2M3", 6},     {"F4", 4},      {"BOOL", 8}};
  ASSERT_EQ(bits.size(), 22U);
  for (const auto& [name, width] : bits) {
    EXPECT_EQ(header_error_of("{\"t\":" + entry(name, "[2,4]", 0, width) + "}", width), "") << name;
    EXPECT_NE(header_error_of("{\"t\":" + entry(name, "[2,4]", 0, width + 1) + "}", width + 1), "") << name;
  }
}

TEST(Header, ReadsTensorsInTheOrderOfTheirData) {
  const auto header = parse_header("{\"b\":" + entry("U8", "[3]", 2, 5) + ",\"a\":" + entry("U8", "[2]", 0, 2) +
                                       ",\"e\":" + entry("F32", "[0,7]", 5, 5) + "}",
                                   5);
  ASSERT_TRUE(header.has_value()) << header.error().to_string();
  EXPECT_EQ(header->tensors[0].info.name, "a");
  EXPECT_EQ(header->tensors[1].info.name, "b");
  EXPECT_EQ(header->tensors[2].info.name, "e");
}

struct BadHeader {
  const char* what;
  std::string json;
  std::int64_t data_bytes;
  const char* message;
};

TEST(Header, SaysWhichRuleIsBroken) {
  const std::string good = entry("U8", "[4]", 0, 4);
  const std::vector<BadHeader> cases = {
      {"leading space", " {}", 0, "does not start with '{'"},
      {"empty", "", 0, "does not start with '{'"},
      {"trailing text", "{}x", 0, "unexpected text"},
      {"duplicate tensor", "{\"a\":" + good + ",\"a\":" + good + "}", 4, "duplicate key 'a'"},
      {"duplicate member", R"({"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, "duplicate"},
      {"duplicate metadata", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "duplicate key 'a'"},
      {"metadata number", R"({"__metadata__":{"a":1}})", 0, "expected a string"},
      {"metadata list", R"({"__metadata__":[]})", 0, "expected an object"},
      {"unknown member", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}})", 4, "unknown member 'x'"},
      {"missing member", R"({"a":{"dtype":"U8","shape":[4]}})", 0, "is missing"},
      {"unknown dtype", "{\"a\":" + entry("F99", "[4]", 0, 4) + "}", 4, "unknown dtype 'F99'"},
      {"negative extent", "{\"a\":" + entry("U8", "[-4]", 0, 4) + "}", 4, "negative extent"},
      {"fraction", "{\"a\":" + entry("U8", "[4.0]", 0, 4) + "}", 4, "expected an integer"},
      {"rank 9", "{\"a\":" + entry("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) + "}", 1, "more than 8 dimensions"},
      {"huge", "{\"a\":" + entry("U8", "[1000000000,1000000000,1000000000]", 0, 4) + "}", 4,
       "tensor 'a': shape [1000000000, 1000000000, 1000000000] has 2^63 elements or more"},
      {"2^60 bytes", "{\"a\":" + entry("F32", "[1000000000000000000]", 0, 4) + "}", 4,
       "tensor 'a': float32 of shape [1000000000000000000] has 2^60 bytes or more"},
      {"10^18", "{\"a\":" + entry("U8", "[1000000000000000000]", 0, 4) + "}", 4, "needs 1000000000000000000 bytes"},
      {"half byte", "{\"a\":" + entry("F4", "[3]", 0, 2) + "}", 2,
       "tensor 'a': 3 elements of 4 bits are not whole bytes"},
      {"size", "{\"a\":" + entry("U8", "[5]", 0, 4) + "}", 4, "needs 5 bytes"},
      {"backwards", "{\"a\":" + entry("U8", "[4]", 0, 4) + ",\"b\":" + entry("U8", "[1]", 4, 3) + "}", 4, "backwards"},
      {"hole", "{\"a\":" + entry("U8", "[4]", 1, 5) + "}", 5, "a hole"},
      {"overlap", "{\"a\":" + good + ",\"b\":" + entry("U8", "[4]", 2, 6) + "}", 6, "an overlap"},
      {"tail", "{\"a\":" + good + "}", 5, "describes 4 bytes of data, the file has 5"},
      {"short", "{\"a\":" + good + "}", 3, "describes 4 bytes of data, the file has 3"},
      {"one offset", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4]}})", 4, "too short"},
      {"three offsets", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})", 4, "too long"},
      {"UTF-8", "{\"\xff\":" + good + "}", 4, "not valid UTF-8"},
  };
  for (const BadHeader& bad : cases)
    EXPECT_NE(header_error_of(bad.json, bad.data_bytes).find(bad.message), std::string::npos)
        << bad.what << ": " << header_error_of(bad.json, bad.data_bytes);
}

TEST(Header, RefusesALengthThatTheFileDoesNotHave) {
  EXPECT_NE(read(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)).error().message().find("exceeds"),
            std::string::npos);
  EXPECT_NE(read(file_of("{}", "").replace(0, 1, "\x03")).error().message().find("exceeds the 2 bytes"),
            std::string::npos);
}

TEST(Header, ThatWasBuiltIsPaddedAndReadsBack) {
  const std::vector<TensorInfo> tensors = {{"w\"\n", DType::kFloat64, {2, 3}}, {"s", DType::kBFloat16, {}}};
  const auto text = build_header(tensors, {{"k", "v\\"}});
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->size() % 8, 0U);
  const auto header = parse_header(text->substr(8), 50);
  ASSERT_TRUE(header.has_value()) << header.error().to_string();
  EXPECT_EQ(header->tensors[0].info, tensors[0]);
  EXPECT_EQ(header->tensors[1].info, tensors[1]);
  EXPECT_EQ(header->metadata, (Metadata{{"k", "v\\"}}));
}

TEST(Header, CannotHoldWhatTheFormatLacks) {
  EXPECT_EQ(build_header({{"z", DType::kComplex128, {1}}}, {}).error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(build_header({{"\xff", DType::kInt8, {1}}}, {}).error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(build_header({{"__metadata__", DType::kInt8, {1}}}, {}).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Header, CannotHoldMoreThanAFileMayHave) {
  const std::int64_t large = (std::int64_t{1} << 60) - 1;
  EXPECT_EQ(build_header({{"w", DType::kInt8, {large + 1}}}, {}).error().to_string(),
            "tensor 'w': int8 of shape [1152921504606846976] has 2^60 bytes or more");
  std::vector<TensorInfo> tensors;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) tensors.push_back({name, DType::kInt8, {large}});
  EXPECT_TRUE(build_header(tensors, {}));  // 2^63 − 8
  tensors.push_back({"i", DType::kInt8, {8}});
  EXPECT_EQ(build_header(tensors, {}).error().to_string(),
            "tensor 'i': its 8 bytes after 9223372036854775800 others reach 2^63");
}

}  // namespace
}  // namespace tenplex::safetensors
