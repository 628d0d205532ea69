// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tenplex/ptc/builtin_layouts.h"
#include "tenplex/ptc/builtin_models.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts(const Result<Model>& model) {
  if (!model) return {model.error().to_string()};
  std::vector<std::string> names;
  for (const TensorInfo& tensor : model->tensors())
    names.push_back(tensor.name + " " + std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape));
  return names;
}

constexpr std::string_view kSizes = "sizes: {n: 2, h: 3}\nnumbers: {layer: n}\nslots: {m: float32}\n";

TEST(Model, ListsEveryNumberOfItsWordsThenItsSlots) {
  const auto model = parse_model(std::string(kSizes) +
                                     "tensors:\n  - {name: 'l.{layer}.w', shape: [h, 4]}\n"
                                     "  - {name: s, shape: [], dtype: int64, slots: false}\n",
                                 "x");
  EXPECT_THAT(texts(model),
              ElementsAre("l.0.w bfloat16 [3, 4]", "l.1.w bfloat16 [3, 4]", "s int64 []",
                          "optimizer.state.m.l.0.w float32 [3, 4]", "optimizer.state.m.l.1.w float32 [3, 4]"));
  EXPECT_EQ(model->parameter_count(), 25);
}

TEST(Model, NamesTheLineOfAnError) {
  const auto refusal = [](const std::string& tensor) {
    return texts(parse_model(std::string(kSizes) + "tensors:\n  - " + tensor + "\n", "x")).front();
  };
  EXPECT_THAT(refusal("{name: w, shape: [k]}"), HasSubstr("model 'x' line 5: an extent names size 'k'"));
  EXPECT_THAT(refusal("{name: '{expert}.w', shape: [h]}"), HasSubstr("line 5: 'expert' is not under 'numbers'"));
  EXPECT_THAT(refusal("{name: w, shape: [h], dtype: float31}"), HasSubstr("line 5: unknown element type 'float31'"));
  EXPECT_THAT(refusal("{name: w}"), HasSubstr("line 5: a tensor needs 'name' and 'shape'"));
  EXPECT_THAT(refusal("{name: '*', shape: [h]}"), HasSubstr("may hold numbers like {layer}"));
  EXPECT_THAT(refusal("{name: w, shape: [1, 1, 1, 1, 1, 1, 1, 1, 1]}"), HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(refusal("{name: w, shape: [4611686018427387904, 4]}"), HasSubstr("model 'x' line 5"));
  EXPECT_THAT(refusal("{name: w, shape: [h]}\n  - {name: w, shape: [h]}"), HasSubstr("has two tensors 'w'"));
  EXPECT_THAT(texts(parse_model("numbers: {layer: 2000000}\ntensors: [{name: 'l.{layer}', shape: []}]", "x")).front(),
              HasSubstr("more than 1048576 tensors"));
}

TEST(BuiltinModels, HaveAsManyParametersAsPublished) {
  // Hand sums, per layer and beside the layers. GPT-3: 12·h² + 13·h a layer; vocabulary 50257, 2048 positions, one
  // norm.
  const auto gpt = [](std::int64_t layers, std::int64_t hidden) {
    return layers * (12 * hidden * hidden + 13 * hidden) + (50257 + 2048) * hidden + 2 * hidden;
  };
  const std::map<std::string, std::int64_t> expected = {
      {"bert-large", 336226108},  // 335,141,888 with the pooler, and 1,084,220 of the heads
      {"gpt3-xl", gpt(24, 2048)}, {"gpt3-2.7b", gpt(32, 2560)}, {"gpt3-6.7b", gpt(32, 4096)},
      {"llama-8b", 8030261248},   {"llama-70b", 70553706496},   {"mixtral-8x7b", 46702792704},
  };
  ASSERT_EQ(builtin_models().size(), expected.size());
  for (const auto& [name, count] : expected) {
    const auto model = builtin_model(name);
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_EQ(model->parameter_count(), count) << name;
    EXPECT_EQ(model->rules().slots.size(), 3U);
  }
  EXPECT_EQ(gpt(24, 2048), 1315723264);
  EXPECT_THAT(builtin_model("x").error().message(),
              HasSubstr("there are: bert-large, gpt3-2.7b, gpt3-6.7b, gpt3-xl, "));
}

TEST(BuiltinModels, FitTheirLayouts) {
  for (const BuiltinYaml& builtin : builtin_models()) {
    const Model model = builtin_model(builtin.name).value();
    const auto made = RuleCollection::make(builtin_layout(model.rules().layout).value(),
                                           {{"tp", 2}, {"dp", 2}, {"pp", 4}}, model.tensors());
    EXPECT_TRUE(made) << builtin.name << ": " << made.error().to_string();
  }
}

}  // namespace
}  // namespace tenplex
