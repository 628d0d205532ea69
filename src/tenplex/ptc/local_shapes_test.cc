// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/local_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

Layout layout() {
  return parse_layout(R"(meshes: {d: [tp, pp]}
sizes: {vocab: 13}
tensors:
  - {match: emb, pad: {dim: 0, data: vocab, multiple_of: [8, tp]}, slice: [{dim: 0, by: tp}], stage: first}
  - {match: 'l.{layer}.up', slice: [{dim: 0, by: tp, segments: [1, 1]}], stage: layer}
  - {match: 'l.{layer}.down', slice: [{dim: 1, by: tp}], stage: layer}
  - {match: odd, slice: [{dim: 0, by: tp}]}
  - {match: flat, slice: [{flat: true, by: tp}]}
slots: {exp_avg: {slice: [{flat: true, by: pp}]}, rows: {base: whole, slice: [{dim: 0, by: tp}]}}
)",
                      "x")
      .value();
}

LocalTensor local_f32(std::string name, const Dims& shape) { return {std::move(name), DType::kFloat32, shape}; }

TEST(GlobalShapes, AreSumsAlongTheAxesThatCut) {
  const std::vector<std::vector<LocalTensor>> devices = {
      {local_f32("emb", {8, 2}), local_f32("l.0.up", {4, 2}), local_f32("l.0.down", {2, 4}), local_f32("odd", {2})},
      {local_f32("emb", {8, 2}), local_f32("l.0.up", {4, 2}), local_f32("l.0.down", {2, 4}), local_f32("odd", {1})},
      {local_f32("l.1.up", {4, 2}), local_f32("odd", {2})},
      {local_f32("l.1.up", {4, 2}), local_f32("odd", {1})}};
  const auto shapes = global_shapes_from_locals(layout(), {{"tp", 2}, {"pp", 2}}, devices);
  ASSERT_TRUE(shapes) << shapes.error().to_string();
  std::string text;
  for (const TensorInfo& tensor : *shapes) text += tensor.name + to_string(tensor.shape) + ' ';
  EXPECT_EQ(text, "emb[13, 2] l.0.up[8, 2] l.0.down[2, 8] odd[3] l.1.up[8, 2] ");
}

TEST(GlobalShapes, OfFlatSlotsAreThoseOfTheParameter) {
  const std::vector<std::vector<LocalTensor>> devices = {
      {local_f32("odd", {3, 3}), local_f32("o.state.odd.exp_avg", {5})},
      {local_f32("odd", {3, 3}), local_f32("o.state.odd.exp_avg", {4})}};
  const auto shapes = global_shapes_from_locals(layout(), {{"pp", 2}}, devices);
  ASSERT_TRUE(shapes) << shapes.error().to_string();
  EXPECT_EQ((*shapes)[1].shape, (Dims{3, 3}));
}

TEST(GlobalShapes, OfSlotsThatAreCutByThemselvesHaveNoPadding) {
  // emb has 13 rows of 16; the slot's own cut knows nothing of that.
  const std::vector<std::vector<LocalTensor>> devices = {
      {local_f32("emb", {8, 2}), local_f32("o.state.emb.rows", {8})},
      {local_f32("emb", {8, 2}), local_f32("o.state.emb.rows", {8})}};
  const auto shapes = global_shapes_from_locals(layout(), {{"tp", 2}}, devices);
  ASSERT_TRUE(shapes) << shapes.error().to_string();
  EXPECT_EQ((*shapes)[0].shape, (Dims{13, 2}));
  EXPECT_EQ((*shapes)[1].shape, (Dims{16}));
}

std::string stack_refusal(const std::vector<std::vector<LocalTensor>>& devices) {
  const auto shapes = global_shapes_from_locals(layout(), {{"tp", 2}}, devices);
  return shapes ? "accepted" : shapes.error().to_string();
}

TEST(GlobalShapes, AreRefusedWhereTheLocalsDoNotFit) {
  EXPECT_THAT(stack_refusal({{local_f32("odd", {1})}, {local_f32("odd", {2})}}),
              HasSubstr("tensor 'odd' on device 0, layout 'x' line 7, global shape [3]: expected [2], found [1]"));
  EXPECT_THAT(stack_refusal({{local_f32("odd", {1})}, {}}),
              HasSubstr("tensor 'odd', layout 'x' line 7 ('odd'): device 1 does not"));
  EXPECT_THAT(stack_refusal({{local_f32("odd", {1})}}), HasSubstr("the mesh has 2 devices, but 1 are given"));
  EXPECT_THAT(stack_refusal({{local_f32("flat", {1})}, {local_f32("flat", {1})}}),
              HasSubstr("which does not tell its shape"));
  EXPECT_THAT(stack_refusal({{local_f32("odd", {1})}, {local_f32("odd", {1, 1})}}),
              HasSubstr("device 1 holds float32 of shape [1, 1]"));
  EXPECT_THAT(stack_refusal({{local_f32("odd", {1}), local_f32("odd", {1})}, {}}),
              HasSubstr("holds two tensors named 'odd'"));
  EXPECT_THAT(stack_refusal({{local_f32("emb", {16, 2})}, {local_f32("emb", {16, 2})}}),
              HasSubstr("expected [8, 2] with its padding in dim 0, found [16, 2]"));
  // The 13 rows alone, as whole tensors have them: 7 and 6.
  EXPECT_THAT(stack_refusal({{local_f32("emb", {7, 2})}, {local_f32("emb", {6, 2})}}),
              HasSubstr("tensor 'emb' on device 0, layout 'x' line 4, global shape [13, 2]: expected [8, 2] with its "
                        "padding in dim 0, found [7, 2]"));
}

}  // namespace
}  // namespace tenplex
