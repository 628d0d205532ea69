// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

bool matches(const char* pattern, const char* name) {
  return NamePattern::parse(pattern).value().match(name).has_value();
}

/// "layer=3 any=q" or "no match".
std::string captures(const char* pattern_text, const char* name) {
  const NamePattern pattern = NamePattern::parse(pattern_text).value();
  const auto found = pattern.match(name);
  if (!found) return "no match";
  std::string text;
  for (const auto& capture : *found)
    text += (text.empty() ? "" : " ") + std::string(capture.word) + "=" + std::string(capture.text);
  return text;
}

TEST(NamePattern, MatchesWholeNames) {
  EXPECT_TRUE(matches("a.b", "a.b"));
  EXPECT_FALSE(matches("a.b", "a.b.c"));
  EXPECT_FALSE(matches("a.b", "x.a.b"));
  EXPECT_FALSE(matches("a.b", "axb"));
}

TEST(NamePattern, StarIsAnyTextAlsoNone) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.weight", "a.b.weight"));
  EXPECT_TRUE(matches("*norm*", "norm"));
  EXPECT_FALSE(matches("*.weight", "weight"));
  EXPECT_TRUE(matches("a*b*c", "a.b.x.b.c"));
  EXPECT_FALSE(matches("a*b*c", "a.c.b"));
}

TEST(NamePattern, CapturesNumbers) {
  EXPECT_EQ(captures("*layers.{layer}.mlp.experts.{expert}.w", "model.layers.12.mlp.experts.7.w"), "layer=12 expert=7");
  EXPECT_EQ(captures("*layers.{layer}.w", "layers.x.w"), "no match");
  EXPECT_EQ(captures("layers.{layer}.w", "layers..w"), "no match");
  EXPECT_EQ(captures("weight{expert}", "weight31"), "expert=31");
  EXPECT_EQ(captures("layers.{layer}.w", "layers.2147483647.w"), "layer=2147483647");
  EXPECT_EQ(captures("layers.{layer}.w", "layers.2147483648.w"), "no match");
}

TEST(NamePattern, ANumberIsNeverTornApart) {
  // The star cannot take the 1 of 12, nor can the literal after the number start inside it.
  EXPECT_EQ(captures("h*x{layer}", "h1x12"), "layer=12");
  EXPECT_EQ(captures("h{layer}2", "h12"), "no match");
}

TEST(NamePattern, AnyIsOneComponentAndParamIsMore) {
  EXPECT_EQ(captures("{any}.{any}", "a.b"), "any=a any=b");
  EXPECT_EQ(captures("{any}.{any}", "a.b.c"), "no match");
  EXPECT_EQ(captures("optim.state.{param}.{slot}", "optim.state.layers.0.w.exp_avg"), "param=layers.0.w slot=exp_avg");
  EXPECT_EQ(captures("*.state.{slot}.{param}", "optimizer.state.exp_avg.layers.0.w"), "slot=exp_avg param=layers.0.w");
  EXPECT_EQ(captures("{any}_w", "a_b_w"), "any=a_b");
}

TEST(NamePattern, BacktracksOverSeveralStars) {
  EXPECT_EQ(captures("*.{any}.layers.{layer}.*", "a.b.layers.x.layers.3.w"), "any=x layer=3");
}

TEST(NamePattern, RefusesBrokenPatterns) {
  for (const char* text : {"", "{", "a}", "{}", "{a-b}", "{layer}.{layer}", "{layer}{expert}", "*{layer}", "**"})
    EXPECT_FALSE(NamePattern::parse(text)) << text;
  EXPECT_THAT(NamePattern::parse("a.{layer").error().message(), HasSubstr("'{' is not closed"));
}

TEST(NamePattern, TakesLinearTimeOnHostileNames) {
  const NamePattern pattern = NamePattern::parse("*a*a*a*a*a*a*a*a*a*a*b*c").value();
  EXPECT_FALSE(pattern.match(std::string(20'000, 'a') + "b"));
}

}  // namespace
}  // namespace tenplex
