// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/regex_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace tenplex::deepspeed {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  const auto parsed = RegexPattern::parse(pattern);
  EXPECT_TRUE(parsed.has_value()) << pattern;
  return parsed.has_value() && parsed->matches(name);
}

// What Python's re.match says of the same.
TEST(RegexPattern, MatchesFromTheStart) {
  EXPECT_TRUE(matches(R"(layers\.\d+\.up)", "layers.12.up.weight"));
  EXPECT_FALSE(matches(R"(layers\.\d+\.up$)", "layers.12.up.weight"));
  EXPECT_FALSE(matches(R"(up)", "layers.12.up"));
  EXPECT_FALSE(matches(R"(layers\.\d+\.up)", "layersx12.up"));
  EXPECT_TRUE(matches(R"(.*norm\.(weight|bias)$)", "a.norm.bias"));
  EXPECT_FALSE(matches(R"(.*norm\.(weight|bias)$)", "a.norm.biases"));
  EXPECT_TRUE(matches(R"(^[^.]+\.[a-c\d_-]+$)", "x.b-7_"));
  EXPECT_FALSE(matches(R"(^[^.]+\.[a-c\d_-]+$)", "x.d"));
  EXPECT_TRUE(matches(R"([]x]\-)", "]-"));
  EXPECT_TRUE(matches(R"((?:ab){2,3}?c)", "ababc"));
  EXPECT_FALSE(matches(R"((?:ab){2,3}c)", "abc"));
  EXPECT_FALSE(matches(R"((?:ab){2,3}c)", "ababababc"));
  EXPECT_TRUE(matches(R"(x{2,}\Z)", "xxxx"));
  EXPECT_FALSE(matches(R"(x{2}\Z)", "xxx"));
  EXPECT_TRUE(matches(R"(a|b|)", "c"));
  EXPECT_TRUE(matches(R"((a*)*b)", "aab"));
  EXPECT_FALSE(matches(R"(\D\S\W)", "ab_"));
  EXPECT_TRUE(matches(R"(\A\D\S\W)", "ab."));
  EXPECT_TRUE(matches("", "anything"));
  EXPECT_FALSE(matches("a^b", "ab"));
  EXPECT_TRUE(matches("a?", ""));
}

TEST(RegexPattern, IsRefusedWhereItNeedsMore) {
  const std::string deep = std::string(30, '(') + std::string(30, ')');
  for (const std::string& pattern :
       {std::string(R"((a)\1)"), std::string("(?=a)"),    std::string("(?i)a"),
        std::string("(?P<n>a)"), std::string("a++"),      std::string("a**"),
        std::string("*a"),       std::string("(a"),       std::string("a)"),
        std::string("[a"),       std::string("[b-a]"),    std::string("a{,3}"),
        std::string("a{3,1}"),   std::string("a{99999}"), std::string("\\"),
        std::string("\\b"),      std::string("[\\b]"),    std::string("^*"),
        std::string("\xc3\xa4"), std::string(1001, 'a'),  std::string("((((a{99}){99}){99}){99}){99}"),
        std::string("a{-1}"),    std::string("[a-\\d]"),  deep}) {
    const auto parsed = RegexPattern::parse(pattern);
    ASSERT_FALSE(parsed.has_value()) << pattern;
    EXPECT_EQ(parsed.error().code(), ErrorCode::kUnsupported);
  }
}

TEST(RegexPattern, TakesTimeInProportionToTheName) {
  const auto parsed = RegexPattern::parse("(a|a|a*)*(a|aa)*b$");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(parsed->matches(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace tenplex::deepspeed
