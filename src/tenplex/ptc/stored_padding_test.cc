// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/stored_padding.h"
#include "tenplex/ptc/testing/tensor_infos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

Layout layout() {
  return parse_layout(R"(meshes: {d: [tp, dp], e: [etp, edp]}
sizes: {vocab: 13, classes: 5, width: 4}
tensors:
  - {match: emb, pad: {dim: 0, data: vocab, multiple_of: [width, tp]}, slice: [{dim: 0, by: tp}]}
  - {match: head, mesh: e, pad: {dim: 1, data: classes, multiple_of: [2, etp]}, slice: [{dim: 1, by: etp}]}
  - {match: fixed, pad: {dim: 0, data: 13, multiple_of: [8]}}
  - {match: full, pad: {dim: 0, data: 16, multiple_of: [8]}}
  - {match: none, pad: {dim: 0, data: 0, multiple_of: [8]}}
  - {match: large, pad: {dim: 0, data: 13, multiple_of: [4294967296, 4294967296]}}
  - {match: all, pad: {dim: 0, multiple_of: [8]}}
  - match: '*'
slots: {whole: replicated, exp_avg: zero1}
)",
                      "x")
      .value();
}

/// The real shape of one stored tensor, or the refusal.
std::string real(const std::string& name, const Dims& stored, const std::optional<MeshSizes>& mesh = std::nullopt) {
  const auto tensors = without_padding(layout(), mesh, {f32(name, stored)});
  return tensors ? to_string(tensors->front().shape) : tensors.error().to_string();
}

TEST(StoredPadding, IsLeftOutWhereTheExtentIsAMultipleOfWhatDoesNotDependOnTheMesh) {
  // 13 rows are padded to a multiple of 4·tp: 16 with tp 1, 2 and 4, 20 with tp 5, 24 with tp 3, 28 with tp 7.
  for (const std::int64_t rows : {13, 16, 20, 24, 28}) EXPECT_EQ(real("emb", {rows, 2}), "[13, 2]");
  EXPECT_EQ(real("emb", {18, 2}),
            "tensor 'emb' has shape [18, 2] in the checkpoint and [13, 2] without what layout 'x' line 4 ('emb') calls "
            "padding: expected 13 or a multiple of 4 in dim 0, found 18");
  EXPECT_EQ(real("head", {3, 6}), "[3, 5]");
  EXPECT_THAT(real("head", {3, 7}), HasSubstr("expected 5 or a multiple of 2 in dim 1, found 7"));
}

TEST(StoredPadding, IsThatOfTheMeshWhereItsSizesAreGiven) {
  EXPECT_EQ(real("emb", {16, 2}, MeshSizes{{"tp", 4}, {"etp", 4}}), "[13, 2]");
  EXPECT_EQ(real("emb", {13, 2}, MeshSizes{{"tp", 4}, {"etp", 4}}), "[13, 2]");
  EXPECT_EQ(real("emb", {24, 2}, MeshSizes{{"tp", 3}, {"etp", 3}}), "[13, 2]");
  EXPECT_THAT(real("emb", {24, 2}, MeshSizes{{"tp", 4}, {"etp", 4}}),
              HasSubstr("expected 13 or 16 in dim 0 with tp=4,etp=4, found 24"));
  EXPECT_EQ(real("head", {3, 8}, MeshSizes{{"tp", 4}, {"etp", 4}}), "[3, 5]");
  EXPECT_THAT(real("head", {3, 6}, MeshSizes{{"tp", 4}, {"etp", 4}}), HasSubstr("expected 5 or 8 in dim 1"));
  EXPECT_THAT(real("emb", {16, 2}, MeshSizes{{"cp", 4}}), HasSubstr("unknown mesh axis 'cp'"));
}

TEST(StoredPadding, WithoutAxesHasOneExtent) {
  EXPECT_EQ(real("fixed", {16}), "[13]");
  EXPECT_THAT(real("fixed", {24}), HasSubstr("expected 13 or 16 in dim 0, found 24"));
  EXPECT_THAT(real("fixed", {24}, MeshSizes{}), HasSubstr("expected 13 or 16 in dim 0, found 24"));
}

TEST(StoredPadding, OfRowsThatNeedNoneIsNotSpokenOf) {
  EXPECT_EQ(real("full", {16}), "[16]");
  EXPECT_THAT(real("full", {24}), HasSubstr("padding: expected 16 in dim 0, found 24"));
  EXPECT_EQ(real("none", {24}), "[24]");  // 0: all rows are data
}

TEST(StoredPadding, ToAMultipleThatNoIntegerHoldsIsRefused) {
  EXPECT_EQ(real("large", {16}),
            "tensor 'large' of shape [16], layout 'x' line 9 ('large'): the product of 'multiple_of' exceeds 2^63");
}

TEST(StoredPadding, IsNothingWhereTheLayoutDoesNotSayWhatIsData) {
  EXPECT_EQ(real("all", {16}), "[16]");
  EXPECT_EQ(real("other", {16}), "[16]");
  EXPECT_TRUE(tells_padding(layout()));
  EXPECT_FALSE(tells_padding(
      parse_layout("meshes: {d: [tp]}\ntensors: [{match: '*', pad: {dim: 0, multiple_of: [8]}}]", "y").value()));
}

TEST(StoredPadding, IsRefusedWhereRowsOfDataAreMissing) {
  EXPECT_EQ(real("emb", {12, 2}),
            "tensor 'emb' has shape [12, 2] in the checkpoint and [13, 2] without what layout 'x' line 4 ('emb') calls "
            "padding: expected at least 13 in dim 0, found 12");
  EXPECT_EQ(real("head", {6}),
            "tensor 'head' of shape [6], layout 'x' line 5 ('head'): pads dim 1, but the tensor has rank 1");
}

TEST(StoredPadding, OfSlotsIsThatOfTheRuleThatCutsThem) {
  const auto tensors =
      without_padding(layout(), std::nullopt,
                      {f32("state.emb.exp_avg", {16, 2}), f32("emb", {16, 2}), f32("state.emb.whole", {16, 2}),
                       f32("state.emb.step", {}), f32("state.head.exp_avg_sq", {3, 6})});
  ASSERT_TRUE(tensors) << tensors.error().to_string();
  std::string text;
  for (const TensorInfo& tensor : *tensors) text += tensor.name + to_string(tensor.shape) + ' ';
  EXPECT_EQ(text,
            "state.emb.exp_avg[13, 2] emb[13, 2] state.emb.whole[16, 2] state.emb.step[] state.head.exp_avg_sq[3, 5] ");
}

}  // namespace
}  // namespace tenplex
