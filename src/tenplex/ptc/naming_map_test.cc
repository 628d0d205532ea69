// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/naming_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/ptc/builtin_maps.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NamingMap, ReadsRules) {
  const auto map = parse_naming_map(
      "map: family\nsides: [a, b]\nsizes:\n  heads: [n_head, num_heads]\n  groups: {config: n_kv, default: heads}\n"
      "tensors:\n  - a: ['{layer}.q', '{layer}.k']\n    b: {name: qk, blocks: groups, transpose: true, stack: layer}\n"
      "    widths: [heads, 2]\n    dim: 1\n",
      "x");
  ASSERT_TRUE(map) << map.error().to_string();
  const MapRules& rules = map->rules();
  EXPECT_EQ(rules.family, "family");
  EXPECT_THAT(rules.sides, ElementsAre("a", "b"));
  EXPECT_THAT(rules.sizes[0].config, ElementsAre("n_head", "num_heads"));
  EXPECT_EQ(rules.sizes[1].otherwise, (Size{0, "heads"}));
  const MapRule& rule = rules.tensors.at(0);
  EXPECT_EQ(rule.line, 7);
  EXPECT_EQ(rule.dim, 1);
  EXPECT_THAT(rule.widths, ElementsAre(Size{0, "heads"}, Size{2, {}}));
  EXPECT_THAT(rule.words, ElementsAre("layer"));
  EXPECT_EQ(rule.sides[0].names.size(), 2U);
  EXPECT_EQ(rule.sides[1].blocks, (Size{0, "groups"}));
  EXPECT_TRUE(rule.sides[1].transpose);
  EXPECT_THAT(rule.sides[1].stack, ElementsAre("layer"));
  EXPECT_EQ(map->where(3), "map 'x' line 3");
}

std::string parse_error_of(const std::string& tensors,
                           const std::string& head = "sides: [a, b]\nsizes: {n: n_head}\n") {
  const auto map = parse_naming_map(head + (tensors.empty() ? "" : "tensors:\n" + tensors), "x");
  return map ? "no error" : map.error().to_string();
}

TEST(NamingMap, SaysWhichLineIsWrong) {
  EXPECT_EQ(parse_error_of(""), "map 'x' line 1: expected a key 'tensors'");
  EXPECT_EQ(parse_error_of("", "tensors: []\n"), "map 'x' line 1: expected a key 'sides'");
  EXPECT_EQ(parse_error_of("", "sides: [a, a]\n"), "map 'x' line 1: the two sides have the same name");
  EXPECT_EQ(parse_error_of("", "sides: [a]\n"), "map 'x' line 1: 'sides' must be a list of two names");
  EXPECT_EQ(parse_error_of("", "sides: [a, dim]\n"), "map 'x' line 1: a side cannot be called 'dim'");
  EXPECT_THAT(parse_error_of("  - {a: x, b: y, c: z}\n"), HasSubstr("map 'x' line 4: unknown key 'c' in a rule"));
  EXPECT_THAT(parse_error_of("  - {a: {name: x, stac: y}, b: y}\n"), HasSubstr("unknown key 'stac' in a side"));
  EXPECT_EQ(parse_error_of("  - {a: x}\n"), "map 'x' line 4: a rule needs 'b'");
  EXPECT_EQ(parse_error_of("  - {a: {blocks: 2}, b: y}\n"), "map 'x' line 4: a side needs 'name'");
  EXPECT_THAT(parse_error_of("  - {a: 'x.*', b: 'y.*'}\n"), HasSubstr("name 'x.*' may hold numbers"));
  EXPECT_THAT(parse_error_of("  - {a: 'x.{any}', b: 'y.{any}'}\n"), HasSubstr("name 'x.{any}' may hold numbers"));
  EXPECT_THAT(parse_error_of("  - {a: 'x.{l', b: y}\n"), HasSubstr("line 4: pattern 'x.{l': '{' is not closed"));
  EXPECT_EQ(parse_error_of("  - {a: 'x.{l}', b: y}\n"),
            "map 'x' line 4: the sides must have the same words, in names or under 'stack': [l] and []");
  EXPECT_EQ(parse_error_of("  - {a: ['x.{l}', x], b: y, widths: [1, 1]}\n"),
            "map 'x' line 4: 'x.{l}' and 'x' must have the same words in braces");
  EXPECT_EQ(parse_error_of("  - {a: {name: 'x.{l}', stack: l}, b: 'y.{l}'}\n"),
            "map 'x' line 4: 'l' is in the name and under 'stack'");
  EXPECT_EQ(parse_error_of("  - {a: [x, y], b: z}\n"),
            "map 'x' line 4: 'widths' must have 2 numbers or sizes, one per part");
  EXPECT_EQ(parse_error_of("  - {a: [x, y], b: [z, v, w]}\n"), "map 'x' line 4: 2 names for 3 parts");
  EXPECT_EQ(parse_error_of("  - {a: {name: [x, y], blocks: 2}, b: z, widths: [1, 1]}\n"),
            "map 'x' line 4: 'blocks' is for one tensor that holds all parts");
  EXPECT_EQ(parse_error_of("  - {a: {name: x, blocks: 2}, b: {name: z, blocks: 2}}\n"),
            "map 'x' line 4: 'widths' and 'blocks' are for rules that join parts");
  EXPECT_EQ(parse_error_of("  - {a: [x, y], b: z, widths: [1, m]}\n"),
            "map 'x' line 4: a width names size 'm', which is not under 'sizes' before");
  EXPECT_EQ(parse_error_of("  - {a: [x, y], b: z, widths: [1, 0]}\n"),
            "map 'x' line 4: a width must be in 1..4611686018427387904, found 0");
  EXPECT_EQ(parse_error_of("", "sides: [a, b]\nsizes: {n: {default: m}, m: k}\n"),
            "map 'x' line 2: 'default' names size 'm', which is not under 'sizes' before");
}

TEST(NamePattern, IsFilledWithNumbers) {
  const NamePattern pattern = NamePattern::parse("h.{layer}.w{expert}").value();
  EXPECT_THAT(pattern.words(), ElementsAre("layer", "expert"));
  const std::vector<std::string> words = {"expert", "layer"};
  EXPECT_EQ(pattern.fill(words, std::vector<std::int64_t>{12, 3}), "h.3.w12");
  EXPECT_FALSE(NamePattern::parse("{slot}").value().captures_only_numbers());
}

TEST(BuiltinMaps, AreThereAndAllParse) {
  std::vector<std::string_view> names;
  for (const BuiltinYaml& map : builtin_maps()) {
    names.push_back(map.name);
    EXPECT_FALSE(map.description.empty());
    const auto parsed = builtin_map(map.name);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(parsed->text(), map.text);
    EXPECT_EQ(parsed->rules().family, map.name);
    if (map.name.starts_with("hf-")) {
      EXPECT_THAT(parsed->rules().sides, ElementsAre("hf", "megatron"));
    }
  }
  EXPECT_THAT(names, ElementsAre("hf-gpt2", "hf-llama", "hf-mixtral", "megatron-modules", "megatron-singleton",
                                 "megatron-stacked"));
  EXPECT_THAT(builtin_map("x").error().message(), HasSubstr("there are: hf-gpt2, hf-llama, hf-mixtral, "
                                                            "megatron-modules, megatron-singleton, megatron-stacked"));
}

}  // namespace
}  // namespace tenplex
