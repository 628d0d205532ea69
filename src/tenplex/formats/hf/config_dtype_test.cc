// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/config_dtype.h"

#include <gtest/gtest.h>

namespace tenplex::hf {
namespace {

TEST(ConfigDType, ChangesTheNameAndNoOtherByte) {
  const auto changed =
      with_dtype("{\n  \"a\": 1.50,\"torch_dtype\" :\"float32\" , \"z\":[{}]\r\n}\n", DType::kBFloat16);
  ASSERT_TRUE(changed.has_value()) << changed.error().to_string();
  EXPECT_EQ(*changed, "{\n  \"a\": 1.50,\"torch_dtype\" :\"bfloat16\" , \"z\":[{}]\r\n}\n");
}

TEST(ConfigDType, ChangesConfigurationsInsideButNotThatOfAQuantization) {
  const auto changed = with_dtype(R"({"dtype":"torch.float16","text_config":{"dtype":"float32"},)"
                                  R"("quantization_config":{"dtype":"float16"},"x":{"dtype":"int8"}})",
                                  DType::kFloat64);
  ASSERT_TRUE(changed.has_value()) << changed.error().to_string();
  EXPECT_EQ(*changed, R"({"dtype":"torch.float64","text_config":{"dtype":"float64"},)"
                      R"("quantization_config":{"dtype":"float16"},"x":{"dtype":"int8"}})");
}

TEST(ConfigDType, LeavesWhatIsNoTypeOfFloats) {
  for (const char* text : {R"({"dtype":"auto"})", R"({"dtype":null})", R"({"torch_dtype":"int64","mydtype":"float32"})",
                           R"({"dtype":"fl\u006fat32"})", "{}"}) {
    const auto same = with_dtype(text, DType::kBFloat16);
    ASSERT_TRUE(same.has_value()) << same.error().to_string();
    EXPECT_EQ(*same, text);
  }
}

TEST(ConfigDType, RefusesWhatIsNoObject) {
  for (const char* text : {"", "[]", "{", R"({"dtype":"float32"} x)", "5"})
    EXPECT_EQ(with_dtype(text, DType::kBFloat16).error().code(), ErrorCode::kCorrupt) << text;
}

}  // namespace
}  // namespace tenplex::hf
