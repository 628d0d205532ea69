// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

/// The message of a layout of one mesh and the given rest, which starts on line 2.
std::string layout_refusal(const std::string& rest) {
  const auto layout = parse_layout("meshes: {dense: [tp, dp, pp], expert: [ep, edp]}\n" + rest, "x");
  return layout ? "accepted" : layout.error().message();
}

TEST(Layout, ReadsEveryConstruct) {
  constexpr std::string_view kText = R"(family: megatron-gpt
meshes:
  dense:  [tp, cp, dp, pp]
  expert: [etp, ep, edp, pp]
sizes: {vocab: 13, experts: 8}
stages: {axis: pp, layers: 12, virtual: 2, split: even}
tensors:
  - match: embedding.weight
    pad: {dim: 0, data: vocab, multiple_of: [128, tp]}
    slice: [{dim: 0, by: tp}]
    stage: [first, last]
  - match: decoder.layers.{layer}.mlp.linear_fc1.weight
    slice: [{dim: 0, by: [tp, cp], segments: [1, 1], interleave: 32, local_interleave: 0}]
    stage: layer
  - match: ['decoder.layers.{layer}.experts.{expert}.w', 'decoder.layers.{layer}.experts.w{expert}']
    mesh: expert
    slice: [{over: expert, by: ep, count: experts}, {dim: 0, by: etp, widths: [1, 2]}]
    stage: layer
  - match: '*.bias'
    rank: 1
    slice: [{flat: true, by: dp, bucket: 'b{any}', multiple_of: 64, align: 16}]
  - match: '*'
slots: {master: zero1, exp_avg: {slice: [{flat: true, by: dp, padded: true}]}, step: replicated, '*': parameter}
slot_names: {patterns: ['opt.{param}.{slot}'], prefixes: ['', 'net.']}
tied: [{alias: output.weight, to: embedding.weight}]
objects:
  - {match: 'rng.{rank}', owner: rank}
  - {match: 'scheduler', owner: {pp: last, tp: 1}}
  - {match: '*', owner: 3}
)";
  std::string text(kText);
  text.replace(text.find("'b{any}'"), 8, "all");
  const auto layout = parse_layout(text, "x");
  ASSERT_TRUE(layout) << layout.error().to_string();
  EXPECT_EQ(layout->name(), "x");
  EXPECT_EQ(layout->text(), text);
  EXPECT_EQ(layout->axes(), (std::vector<std::string>{"tp", "cp", "dp", "pp", "etp", "ep", "edp"}));
  const LayoutRules& rules = layout->rules();
  EXPECT_EQ(rules.family, "megatron-gpt");
  ASSERT_EQ(rules.tensors.size(), 5U);
  EXPECT_EQ(rules.tensors[0].line, 8);
  EXPECT_EQ(rules.tensors[0].pad->multiple_of, (std::vector<Size>{{128, {}}, {0, "tp"}}));
  EXPECT_EQ(rules.tensors[0].stages.size(), 2U);
  EXPECT_EQ(rules.tensors[1].slices[0].by, (std::vector<std::string>{"tp", "cp"}));
  EXPECT_EQ(rules.tensors[1].slices[0].local_interleave, Size{});
  EXPECT_EQ(rules.tensors[2].mesh, 1U);
  EXPECT_EQ(rules.tensors[2].slices[0].over, "expert");
  EXPECT_EQ(rules.tensors[3].slices[0].bucket, "all");
  EXPECT_TRUE(rules.tensors[4].is_catch_all());
  EXPECT_FALSE(rules.tensors[3].is_catch_all());
  ASSERT_EQ(rules.slots.size(), 4U);
  EXPECT_TRUE(rules.slots[0].zero1);
  EXPECT_EQ(rules.slot_names.prefixes[1], "net.");
  EXPECT_EQ(rules.objects[1].coordinates.size(), 2U);
}

TEST(Layout, NamesTheLineOfAnUnknownKey) {
  EXPECT_EQ(layout_refusal("tensors:\n  - match: a\n    slise: []\n"),
            "layout 'x' line 4: unknown key 'slise' in a rule; known keys: match, rank, without, zero, mesh, pad, "
            "slice, stage");
  EXPECT_EQ(layout_refusal("tensor: []\n"),
            "layout 'x' line 2: unknown key 'tensor' in a layout; known keys: family, meshes, axes, sizes, values, "
            "tensors, slots, slot_names, stages, tied, objects, zero");
  EXPECT_THAT(
      layout_refusal("tensors:\n  - match: a\n    slice:\n      - dim: 0\n        by: tp\n        segment: 2\n"),
      HasSubstr("line 7: unknown key 'segment' in a slice"));
}

TEST(Layout, NamesTheLineOfAnUnknownAxisMeshOrCapture) {
  EXPECT_EQ(layout_refusal("tensors:\n  - match: a\n    slice: [{dim: 0, by: tpp}]\n"),
            "layout 'x' line 4: mesh 'dense' has no axis 'tpp'; its axes are: tp, dp, pp");
  EXPECT_EQ(layout_refusal("tensors:\n  - match: a\n    mesh: moe\n"),
            "layout 'x' line 4: unknown mesh 'moe'; the layout's meshes are: dense, expert");
  EXPECT_EQ(layout_refusal("tensors:\n  - {match: a, mesh: expert, slice: [{over: expert, by: ep}]}\n"),
            "layout 'x' line 3: the pattern 'a' captures no number {expert}");
  EXPECT_EQ(layout_refusal("tensors:\n  - {match: a, stage: layer}\n"),
            "layout 'x' line 3: 'stage: layer' needs {layer} in the pattern 'a'");
  EXPECT_EQ(layout_refusal("tensors:\n  - {match: a, mesh: expert, stage: first}\n"),
            "layout 'x' line 3: 'stage' needs the axis 'pp' in mesh 'expert'");
}

TEST(Layout, RefusesAnAxisThatCutsTwice) {
  EXPECT_EQ(layout_refusal("tensors:\n  - match: a\n    slice:\n      - {dim: 0, by: tp}\n      - {dim: 1, by: tp}\n"),
            "layout 'x' line 6: axis 'tp' is used twice in one rule");
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, stage: first, slice: [{dim: 0, by: pp}]}\n"),
              HasSubstr("used twice"));
}

TEST(Layout, RefusesWrongValuesWithTheirLine) {
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{dim: 8, by: tp}]}\n"),
              HasSubstr("line 3: 'dim' must be in 0..7, found 8"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{dim: x, by: tp}]}\n"),
              HasSubstr("whole number, found 'x'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{by: tp}]}\n"),
              HasSubstr("needs 'dim', 'flat' or 'over'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{dim: 0}]}\n"), HasSubstr("line 3: a slice needs 'by'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{dim: 0, by: tp, split: odd}]}\n"),
              HasSubstr("found 'odd'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {slice: []}\n"), HasSubstr("line 3: a rule needs 'match'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - match: 'a{'\n"), HasSubstr("line 3: pattern 'a{': '{' is not closed"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, stage: middle}\n"), HasSubstr("found 'middle'"));
  EXPECT_THAT(layout_refusal("tensors: []\nslots: {m: zero9}\n"), HasSubstr("line 3: slot 'm'"));
  EXPECT_THAT(layout_refusal("tensors: []\nstages: {axis: qq}\n"),
              HasSubstr("line 3: no mesh has the stage axis 'qq'"));
  EXPECT_THAT(layout_refusal("tensors: []\nobjects: [{match: a, owner: rank}]\n"),
              HasSubstr("line 3: 'owner' must be"));
  EXPECT_THAT(layout_refusal("tensors: {}\n"), HasSubstr("line 2: 'tensors' must be a list"));
  EXPECT_THAT(layout_refusal("sizes: {v: 99999999999999999999}\ntensors: []\n"), HasSubstr("line 2: size 'v'"));
}

TEST(Layout, RefusesFactorsBelowOne) {
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, pad: {dim: 0, multiple_of: [8, 0]}}\n"),
              HasSubstr("line 3: 'multiple_of' must be at least 1, found 0"));
  EXPECT_THAT(layout_refusal("sizes: {v: 0}\ntensors:\n  - {match: a, pad: {dim: 0, multiple_of: v}}\n"),
              HasSubstr("line 4: 'multiple_of' must be at least 1, found 0"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{flat: true, by: dp, bucket: b, multiple_of: 0}]}\n"),
              HasSubstr("line 3: 'multiple_of' must be at least 1, found 0"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{flat: true, by: dp, bucket: b, align: 0}]}\n"),
              HasSubstr("line 3: 'align' must be at least 1, found 0"));
}

TEST(Layout, RefusesCombinationsWithoutMeaning) {
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{flat: true, by: dp}, {dim: 0, by: tp}]}\n"),
              HasSubstr("slices of a dim must come before it"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{dim: 0, by: tp, interleave: 2}]}\n"),
              HasSubstr("need 'segments'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{flat: true, by: dp, align: 2}]}\n"),
              HasSubstr("need 'bucket'"));
  EXPECT_THAT(layout_refusal("tensors:\n  - {match: a, slice: [{dim: 0, by: tp, widths: [1], segments: [1]}]}\n"),
              HasSubstr("cannot be combined"));
  EXPECT_THAT(layout_refusal("tensors: []\ntied: [{alias: a, to: b}, {alias: b, to: c}]\n"),
              HasSubstr("'b' is tied more than once"));
}

TEST(Layout, RefusesBrokenYaml) {
  EXPECT_THAT(layout_refusal("tensors: [\n"), HasSubstr("layout 'x' line "));
  EXPECT_THAT(layout_refusal("tensors: []\ntensors: []\n"), HasSubstr("line 3: key 'tensors' occurs twice"));
  EXPECT_THAT(parse_layout("", "x").error().message(), HasSubstr("layout 'x' line 1"));
  EXPECT_THAT(parse_layout("just a text", "x").error().message(), HasSubstr("must be a map"));
  EXPECT_THAT(parse_layout("meshes: {a: [b]}\n---\ntensors: []\n", "x").error().message(), HasSubstr("more than one"));
  EXPECT_THAT(parse_layout("meshes: {a: [b]}\n", "x").error().message(), HasSubstr("expected a key 'tensors'"));
  EXPECT_THAT(parse_layout(std::string("meshes: \0\xff\xfe", 11), "x").error().message(), HasSubstr("layout 'x' line"));
}

TEST(Layout, RefusesAnchorsSoThatTheyCannotMultiply) {
  EXPECT_EQ(layout_refusal("tensors: []\nfamily: &a b\n"), "layout 'x' line 3: anchors and aliases are not allowed");
}

TEST(Layout, RefusesDeepAndLargeDocuments) {
  EXPECT_THAT(layout_refusal("tensors: " + std::string(100, '[') + std::string(100, ']')), HasSubstr("nested deeper"));
  EXPECT_FALSE(parse_layout(std::string(400'000, '['), "x"));
  EXPECT_FALSE(parse_layout(std::string(400'000, '{'), "x"));
  EXPECT_EQ(parse_layout(std::string(kMaxLayoutBytes + 1, ' '), "x").error().code(), ErrorCode::kOutOfRange);
  std::string many = "tensors:\n";
  for (int rule = 0; rule < 5000; ++rule) many += "  - match: a\n";
  EXPECT_THAT(layout_refusal(many), HasSubstr("more than 4096 rules"));
}

}  // namespace
}  // namespace tenplex
