// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/rule_collection.h"
#include "tenplex/ptc/testing/tensor_infos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Made = Result<std::unique_ptr<RuleCollection>>;

Made make_rules(const std::string& yaml, const MeshSizes& mesh, std::vector<TensorInfo> tensors,
                std::vector<std::string> objects = {}, const NamedSizes& sizes = {}) {
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, parse_layout(yaml, "x"));
  return RuleCollection::make(layout, mesh, std::move(tensors), std::move(objects), sizes);
}

/// What a device holds of a tensor; "nothing" if that is no shard.
std::string on_device(const Made& made, std::string_view tensor, int device) {
  const Collection& collection = **made;
  std::vector<std::int64_t> shards;
  const TensorId id = *collection.find(tensor);
  collection.shards_of_device(id, DeviceId(device), &shards);
  if (shards.empty()) return "nothing";
  SubTensor shard;
  collection.shard(id, shards.front(), &shard);
  return to_string(shard);
}

/// The devices that hold anything of a tensor.
std::vector<int> devices_with(const Made& made, std::string_view tensor) {
  std::vector<int> devices;
  for (int device = 0; device < (*made)->device_count(); ++device)
    if (on_device(made, tensor, device) != "nothing") devices.push_back(device);
  return devices;
}

std::vector<int> holders(const Made& made, std::string_view tensor, std::int64_t shard) {
  std::vector<DeviceId> devices;
  (*made)->holders(*(*made)->find(tensor), shard, &devices);
  std::vector<int> numbers;
  for (const DeviceId device : devices) numbers.push_back(device.value());
  return numbers;
}

TEST(RuleCollection, ReplicatesOverAxesThatNoSliceNames) {
  const auto made = make_rules("meshes: {d: [tp, dp]}\ntensors: [{match: w, slice: [{dim: 0, by: tp}]}]",
                               {{"tp", 2}, {"dp", 3}}, {f32("w", {4, 2})});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ((*made)->shard_count(TensorId(0)), 2);
  EXPECT_THAT(holders(made, "w", 1), ElementsAre(1, 3, 5));
  EXPECT_EQ(on_device(made, "w", 3), "[2, 2] | [2:4, 0:2] at 0 step [2, 1]");
}

TEST(RuleCollection, NumbersTheCutsOfSeveralAxesFirstAxisFastest) {
  // One cut of 8 rows over dp x cp: part = dp + 2·cp. Devices are cp + 2·dp.
  const auto made = make_rules("meshes: {d: [cp, dp]}\ntensors: [{match: w, slice: [{dim: 0, by: [dp, cp]}]}]",
                               {{"cp", 2}, {"dp", 2}}, {f32("w", {8})});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(on_device(made, "w", 1), "[2] | [4:6] at 0 step [1]");  // cp 1, dp 0: part 2
  EXPECT_EQ(on_device(made, "w", 2), "[2] | [2:4] at 0 step [1]");  // cp 0, dp 1: part 1
  EXPECT_THAT(holders(made, "w", 2), ElementsAre(1));
}

TEST(RuleCollection, PutsLayersOnStages) {
  const std::string rules =
      "tensors:\n  - {match: 'l.{layer}', stage: layer}\n  - {match: in, stage: first}\n"
      "  - {match: out, stage: last}\n  - {match: tied, stage: [first, last]}\n  - match: '*'\n";
  std::vector<TensorInfo> tensors = {f32("in", {1}), f32("out", {1}), f32("tied", {1}), f32("norm", {1})};
  for (int layer = 0; layer < 5; ++layer) tensors.push_back(f32("l." + std::to_string(layer), {1}));
  const MeshSizes mesh = {{"pp", 3}};
  const auto stages = [&](const std::string& table) {
    const auto made = make_rules("meshes: {d: [pp]}\n" + table + rules, mesh, tensors);
    EXPECT_TRUE(made) << (made ? "" : made.error().to_string());
    std::string text;
    for (int layer = 0; layer < 5; ++layer) text += std::to_string(devices_with(made, "l." + std::to_string(layer))[0]);
    return text;
  };
  EXPECT_EQ(stages(""), "00112");                                    // balanced: 2, 2, 1
  EXPECT_EQ(stages("stages: {split: chunk}\n"), "00112");            // ceil(5 / 3) = 2
  EXPECT_EQ(stages("stages: {widths: [1, 3, 1]}\n"), "01112");       // uneven
  EXPECT_EQ(stages("stages: {table: [2, 2, 0, 1, 0]}\n"), "22010");  // given
  EXPECT_EQ(stages("stages: {layers: 6}\n"), "00112");               // the sixth is not in this checkpoint
  EXPECT_EQ(stages("stages: {layers: 6, virtual: 2}\n"), "01201");   // chunks of 1: 0 1 2 | 0 1 2
  const auto made = make_rules("meshes: {d: [pp]}\n" + rules, mesh, tensors);
  EXPECT_THAT(devices_with(made, "in"), ElementsAre(0));
  EXPECT_THAT(devices_with(made, "out"), ElementsAre(2));
  EXPECT_THAT(devices_with(made, "tied"), ElementsAre(0, 2));
  EXPECT_THAT(holders(made, "tied", 0), ElementsAre(0, 2));
  EXPECT_THAT(devices_with(made, "norm"), ElementsAre(0, 1, 2));
  EXPECT_THAT(make_rules("meshes: {d: [pp]}\nstages: {split: even}\n" + rules, mesh, tensors).error().to_string(),
              HasSubstr("layout 'x' line 2: 5 layers over 3 stages: 5 does not divide evenly into 3 parts"));
}

TEST(RuleCollection, PlacesExpertsWholeAndSlicesThem) {
  const std::string yaml = R"(meshes:
  dense: [tp, dp]
  expert: [etp, ep, edp]
tensors:
  - match: e.{expert}.w
    mesh: expert
    slice: [{over: expert, by: ep}, {dim: 0, by: etp}]
  - match: w
    slice: [{dim: 0, by: tp}]
)";
  const auto made =
      make_rules(yaml, {{"tp", 2}, {"dp", 4}, {"etp", 2}, {"ep", 2}, {"edp", 2}},
                 {f32("w", {4}), f32("e.0.w", {4}), f32("e.1.w", {4}), f32("e.2.w", {4}), f32("e.3.w", {4})});
  ASSERT_TRUE(made) << made.error().to_string();
  // device = etp + 2·ep + 4·edp; experts 0 and 1 on ep 0, 2 and 3 on ep 1.
  EXPECT_THAT(devices_with(made, "e.1.w"), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(devices_with(made, "e.2.w"), ElementsAre(2, 3, 6, 7));
  EXPECT_EQ((*made)->shard_count(*(*made)->find("e.2.w")), 2);
  EXPECT_THAT(holders(made, "e.2.w", 1), ElementsAre(3, 7));
  EXPECT_EQ(on_device(made, "e.2.w", 7), "[2] | [2:4] at 0 step [1]");
  EXPECT_THAT(holders(made, "w", 1), ElementsAre(1, 3, 5, 7));
}

TEST(RuleCollection, PlacesByACountOfMoreThanThereAre) {
  const auto made = make_rules(
      "meshes: {d: [etp, ep]}\ntensors: [{match: 'e.{expert}', "
      "slice: [{over: expert, by: ep, count: 6}, {dim: 0, by: etp}]}]",
      {{"etp", 2}, {"ep", 2}}, {f32("e.0", {4, 2}), f32("e.2", {4, 2}), f32("e.3", {4, 2})});
  ASSERT_TRUE(made) << made.error().to_string();
  // Three of six on each part of ep, where four would be two and two. device = etp + 2·ep.
  EXPECT_EQ(on_device(made, "e.2", 1), "[2, 2] | [2:4, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(on_device(made, "e.2", 2), "nothing");
  EXPECT_EQ(on_device(made, "e.3", 1), "nothing");
  EXPECT_EQ(on_device(made, "e.3", 2), "[2, 2] | [0:2, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(on_device(made, "e.3", 3), "[2, 2] | [2:4, 0:2] at 0 step [2, 1]");
  EXPECT_THAT(devices_with(made, "e.0"), ElementsAre(0, 1));
}

TEST(RuleCollection, PlacesByWidths) {
  const std::string yaml =
      "meshes: {d: [ep, dp]}\ntensors: [{match: 'e.{expert}', slice: [{over: expert, by: ep, widths: [1, 0, 3]}]}]";
  const std::vector<TensorInfo> tensors = {f32("e.0", {2}), f32("e.1", {2}), f32("e.3", {2})};
  const auto made = make_rules(yaml, {{"ep", 3}, {"dp", 2}}, tensors);
  ASSERT_TRUE(made) << made.error().to_string();
  // device = ep + 3·dp: the first on ep 0, none on ep 1, the next three on ep 2.
  EXPECT_THAT(devices_with(made, "e.0"), ElementsAre(0, 3));
  EXPECT_THAT(devices_with(made, "e.1"), ElementsAre(2, 5));
  EXPECT_THAT(devices_with(made, "e.3"), ElementsAre(2, 5));
  EXPECT_EQ(on_device(made, "e.3", 5), "[2] | [0:2] at 0 step [1]");
  EXPECT_THAT(make_rules(yaml, {{"ep", 2}}, tensors).error().to_string(), HasSubstr("expected 2 widths"));
}

TEST(RuleCollection, PutsATensorOnANumberedStage) {
  const std::string yaml =
      "meshes: {d: [tp, pp]}\ntensors:\n  - {match: one, stage: 1, slice: [{dim: 0, by: tp}]}\n"
      "  - {match: two, stage: [0, 2]}\n";
  const auto made = make_rules(yaml, {{"tp", 2}, {"pp", 3}}, {f32("one", {4}), f32("two", {4})});
  ASSERT_TRUE(made) << made.error().to_string();
  // device = tp + 2·pp.
  EXPECT_THAT(devices_with(made, "one"), ElementsAre(2, 3));
  EXPECT_EQ(on_device(made, "one", 2), "[2] | [0:2] at 0 step [1]");
  EXPECT_EQ(on_device(made, "one", 3), "[2] | [2:4] at 0 step [1]");
  EXPECT_THAT(devices_with(made, "two"), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(make_rules(yaml, {{"pp", 2}}, {f32("two", {4})}).error().to_string(), HasSubstr("stage 2"));
}

TEST(RuleCollection, RecomputesVocabularyPaddingForEveryMesh) {
  const std::string yaml =
      "meshes: {d: [tp]}\ntensors: [{match: v, pad: {dim: 0, data: vocab, multiple_of: [8, tp]}, "
      "slice: [{dim: 0, by: tp}]}]";
  const NamedSizes vocab = {{"vocab", 13}};
  // Given with its own padding of 16 rows or without any, the tensor has 13.
  for (const std::int64_t rows : {13, 16}) {
    const auto two = make_rules(yaml, {{"tp", 2}}, {f32("v", {rows, 2})}, {}, vocab);
    ASSERT_TRUE(two) << two.error().to_string();
    EXPECT_EQ((*two)->tensors()[0].shape, (Dims{13, 2}));
    EXPECT_EQ(on_device(two, "v", 0), "[8, 2] | [0:8, 0:2] at 0 step [2, 1]");
    EXPECT_EQ(on_device(two, "v", 1), "[8, 2] | [8:13, 0:2] at 0 step [2, 1]");
    const auto three = make_rules(yaml, {{"tp", 3}}, {f32("v", {rows, 2})}, {}, vocab);
    EXPECT_EQ(on_device(three, "v", 1), "[8, 2] | [8:13, 0:2] at 0 step [2, 1]");
    EXPECT_EQ(on_device(three, "v", 2), "[8, 2]");
  }
  EXPECT_THAT(make_rules(yaml, {}, {f32("v", {12, 2})}, {}, vocab).error().to_string(),
              HasSubstr("expected at least 13 indices of data in dim 0, found 12"));
  EXPECT_THAT(make_rules(yaml, {}, {f32("v", {13, 2})}).error().to_string(), HasSubstr("size 'vocab' has no value"));
}

TEST(RuleCollection, CutsSlotsAsTheirParameterAndReplicatesScalars) {
  const std::string yaml =
      "meshes: {d: [tp, dp]}\ntensors: [{match: 'l.{layer}.w', slice: [{dim: 1, by: tp}]}]\n"
      "slots: {exp_avg: zero1}";
  const auto made = make_rules(yaml, {{"tp", 2}, {"dp", 2}},
                               {f32("model.l.0.w", {2, 6}), f32("l.0.w", {2, 6}),
                                f32("optim.state.l.0.w.exp_avg", {2, 6}), f32("optim.state.l.0.w.exp_avg_sq", {2, 6}),
                                f32("optim.state.l.0.w.step", {}), f32("optimizer.state.exp_avg.l.0.w", {2, 6})});
  ASSERT_FALSE(made);  // model.l.0.w matches no rule
  EXPECT_EQ(
      made.error().message(),
      "tensor 'model.l.0.w' of shape [2, 6]: no rule of layout 'x' matches; add one, or a last rule with match: '*'");
  const auto fine = make_rules(
      yaml, {{"tp", 2}, {"dp", 2}},
      {f32("l.0.w", {2, 6}), f32("optim.state.l.0.w.exp_avg", {2, 6}), f32("optim.state.l.0.w.exp_avg_sq", {2, 6}),
       f32("optim.state.l.0.w.step", {}), f32("optimizer.state.exp_avg.l.0.w", {2, 6})});
  ASSERT_TRUE(fine) << fine.error().to_string();
  EXPECT_EQ(on_device(fine, "optim.state.l.0.w.exp_avg_sq", 1), "[2, 3] | [0:2, 3:6] at 0 step [3, 1]");
  // zero1: the local [2, 3] flat in two halves over dp; device 3 has tp 1, dp 1.
  for (const char* name : {"optim.state.l.0.w.exp_avg", "optimizer.state.exp_avg.l.0.w"})
    EXPECT_EQ(on_device(fine, name, 3), "[3] | [1:2, 3:6] at 0 step [3, 1]");
  EXPECT_THAT(holders(fine, "optim.state.l.0.w.step", 0), ElementsAre(0, 1, 2, 3));
}

TEST(RuleCollection, CutsSlotsThatStartFromTheWhole) {
  const std::string yaml =
      "meshes: {d: [tp, dp]}\ntensors: [{match: w, slice: [{dim: 1, by: tp}]}]\nslots:\n"
      "  exp_avg: {base: whole, slice: [{dim: 0, by: dp}]}\n  exp_avg_sq: {base: whole, slice: [{flat: true, by: "
      "dp}]}\n"
      "  master: {base: parameter, slice: [{dim: 0, by: dp}]}\n  momentum_buffer: {base: whole}\n";
  std::vector<TensorInfo> tensors = {f32("w", {4, 6})};
  for (const char* slot : {"exp_avg", "exp_avg_sq", "master", "momentum_buffer"})
    tensors.push_back(f32(std::string("state.w.") + slot, {4, 6}));
  const auto made = make_rules(yaml, {{"tp", 2}, {"dp", 2}}, tensors);
  ASSERT_TRUE(made) << made.error().to_string();
  // device = tp + 2·dp. The parameter's cut over tp counts only where the slot starts from the parameter.
  EXPECT_EQ(on_device(made, "w", 3), "[4, 3] | [0:4, 3:6] at 0 step [3, 1]");
  EXPECT_EQ(on_device(made, "state.w.exp_avg", 1), "[2, 6] | [0:2, 0:6] at 0 step [6, 1]");
  EXPECT_EQ(on_device(made, "state.w.exp_avg", 3), "[2, 6] | [2:4, 0:6] at 0 step [6, 1]");
  EXPECT_EQ(on_device(made, "state.w.exp_avg_sq", 3), "[12] | [2:4, 0:6] at 0 step [6, 1]");
  EXPECT_THAT(holders(made, "state.w.exp_avg_sq", 0), ElementsAre(0, 1));
  EXPECT_EQ(on_device(made, "state.w.master", 3), "[2, 3] | [2:4, 3:6] at 0 step [3, 1]");
  EXPECT_EQ(on_device(made, "state.w.momentum_buffer", 2), "[4, 6] | [0:4, 0:6] at 0 step [6, 1]");
  EXPECT_THAT(holders(made, "state.w.momentum_buffer", 0), ElementsAre(0, 1, 2, 3));
}

TEST(RuleCollection, LetsTheFirstRuleThatMatchesDecide) {
  const auto made = make_rules(
      "meshes: {d: [tp]}\ntensors:\n  - {match: 'a*', slice: [{dim: 0, by: tp}]}\n  - match: '*'\n"
      "  - {match: 'b', slice: [{dim: 0, by: tp}]}\n",
      {{"tp", 2}}, {f32("ab", {4}), f32("b", {4})});
  EXPECT_EQ((*made)->rule_line(TensorId(0)), 3);
  EXPECT_EQ((*made)->rule_line(TensorId(1)), 4);
  EXPECT_EQ(on_device(made, "b", 1), "[4] | [0:4] at 0 step [1]");
}

TEST(RuleCollection, FindsSlotsWithoutTheirParameterAndWithAPrefix) {
  const std::string yaml = "meshes: {d: [tp]}\ntensors: [{match: 'model.w', slice: [{dim: 0, by: tp}]}, {match: '*'}]";
  const auto alone = make_rules(yaml, {{"tp", 2}}, {f32("optim.state.model.w.exp_avg", {4})});
  EXPECT_EQ(on_device(alone, "optim.state.model.w.exp_avg", 1), "[2] | [2:4] at 0 step [1]");
  const auto prefixed = make_rules(yaml, {{"tp", 2}}, {f32("model.w", {4}), f32("optim.state.w.exp_avg", {4})});
  EXPECT_EQ(on_device(prefixed, "optim.state.w.exp_avg", 1), "[2] | [2:4] at 0 step [1]");
  const auto other = make_rules(yaml, {{"tp", 2}}, {f32("model.w", {4}), f32("optim.state.w.row_sums", {3})});
  EXPECT_EQ(on_device(other, "optim.state.w.row_sums", 1), "[3] | [0:3] at 0 step [1]");
}

TEST(RuleCollection, CutsABucketWithPadding) {
  // a [5] and b [2, 3]: 11 elements, padded to 12, over 3 (4 each).
  const std::string yaml =
      "meshes: {d: [dp]}\n"
      "tensors: [{match: '*', slice: [{flat: true, by: dp, bucket: all, multiple_of: [2, 3]}]}]";
  const auto made = make_rules(yaml, {{"dp", 3}}, {f32("a", {5}), f32("b", {2, 3})});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(on_device(made, "a", 0), "[4] | [0:4] at 0 step [1]");
  EXPECT_EQ(on_device(made, "a", 1), "[1] | [4:5] at 0 step [1]");
  EXPECT_EQ(on_device(made, "a", 2), "[0]");
  EXPECT_EQ(on_device(made, "b", 0), "[0]");
  EXPECT_EQ(on_device(made, "b", 1), "[3] | [0:1, 0:3] at 0 step [3, 1]");
  EXPECT_EQ(on_device(made, "b", 2), "[3] | [1:2, 0:3] at 0 step [3, 1]");
}

TEST(RuleCollection, KeepsBucketsApartByCaptureAndAlignsTheirTensors) {
  const std::string yaml =
      "meshes: {d: [dp]}\ntensors: [{match: 'l.{layer}.{any}', "
      "slice: [{flat: true, by: dp, bucket: 'block{layer}', align: 4}]}]";
  const auto made = make_rules(yaml, {{"dp", 2}}, {f32("l.0.a", {3}), f32("l.1.a", {3}), f32("l.0.b", {4})});
  ASSERT_TRUE(made) << made.error().to_string();
  // Block 0: a at 0..2, b at 4..7: halves are 0..3 and 4..7. Block 1: a alone, halves of 2 and 1.
  EXPECT_EQ(on_device(made, "l.0.a", 0), "[3] | [0:3] at 0 step [1]");
  EXPECT_EQ(on_device(made, "l.0.b", 1), "[4] | [0:4] at 0 step [1]");
  EXPECT_EQ(on_device(made, "l.1.a", 1), "[1] | [2:3] at 0 step [1]");
}

TEST(RuleCollection, CutsSamplesByDpAndSequenceByCp) {
  const auto made =
      make_rules("meshes: {d: [cp, dp]}\ntensors: [{match: tokens, slice: [{dim: 0, by: dp}, {dim: 1, by: cp}]}]",
                 {{"cp", 2}, {"dp", 2}}, {f32("tokens", {6, 8})});
  EXPECT_EQ(on_device(made, "tokens", 2), "[3, 4] | [3:6, 0:4] at 0 step [4, 1]");
}

TEST(RuleCollection, StoresTiedTensorsOnce) {
  const std::string yaml =
      "meshes: {d: [tp]}\ntied: [{alias: head, to: embed}]\n"
      "tensors: [{match: '*', slice: [{dim: 0, by: tp}]}]";
  const auto made = make_rules(yaml, {{"tp", 2}}, {f32("head", {4}), f32("embed", {4})});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ((*made)->alias_of(TensorId(0)), TensorId(1));
  EXPECT_EQ((*made)->alias_of(TensorId(1)), std::nullopt);
  EXPECT_EQ((*made)->shard_count(TensorId(0)), 0);
  EXPECT_THAT(devices_with(made, "head"), ElementsAre());
  EXPECT_EQ((*made)->shard_count(TensorId(1)), 2);
  EXPECT_NE((*made)->geometry_key(TensorId(0)), (*made)->geometry_key(TensorId(1)));
  EXPECT_EQ(make_rules(yaml, {}, {f32("head", {4}), f32("embed", {5})}).error().message(),
            "layout 'x' line 2: tensor 'head' (float32 [4]) cannot be tied to 'embed' (float32 [5])");
  EXPECT_EQ((*make_rules(yaml, {{"tp", 2}}, {f32("head", {4})}))->shard_count(TensorId(0)), 2);  // alone it is a tensor
}

TEST(RuleCollection, GivesObjectsTheirOwner) {
  const std::string yaml =
      "meshes: {d: [tp, pp]}\ntensors: []\nobjects:\n  - {match: 'rng.{rank}', owner: rank}\n"
      "  - {match: last, owner: {pp: last, tp: 1}}\n  - {match: three, owner: 3}\n";
  const auto made = make_rules(yaml, {{"tp", 2}, {"pp", 2}}, {}, {"rng.1", "rng.6", "last", "three", "other"});
  ASSERT_TRUE(made) << made.error().to_string();
  std::vector<int> owners;
  for (const ObjectInfo& object : (*made)->objects()) owners.push_back(object.owner.value());
  EXPECT_THAT(owners, ElementsAre(1, 2, 3, 3, 0));
  EXPECT_EQ(make_rules(yaml, {{"tp", 2}}, {}, {"three"}).error().message(),
            "object 'three', layout 'x' line 6: device 3 of 2");
}

TEST(RuleCollection, NamesParameterShapeMeshRuleAndLineInErrors) {
  const std::string yaml =
      "meshes: {d: [tp]}\ntensors:\n  - match: w\n    slice: [{dim: 1, by: tp}]\n"
      "  - {match: g, slice: [{dim: 0, by: tp, segments: [1, 1]}]}\n"
      "  - {match: q, slice: [{dim: 0, by: tp, widths: [3, 1]}]}\n";
  EXPECT_EQ(make_rules(yaml, {{"tp", 2}}, {f32("w", {4})}).error().to_string(),
            "tensor 'w' of shape [4] on mesh 'd' (tp=2), layout 'x' line 3 ('w'): "
            "slices dim 1, but the tensor has rank 1");
  EXPECT_EQ(make_rules(yaml, {{"tp", 2}}, {f32("g", {5})}).error().to_string(),
            "tensor 'g' of shape [5] on mesh 'd' (tp=2), layout 'x' line 5 ('g'): "
            "segments [1, 1] add up to 2, which does not divide the local extent 5");
  EXPECT_THAT(make_rules(yaml, {{"tp", 4}}, {f32("q", {4})}).error().to_string(), HasSubstr("expected 4 widths"));
  EXPECT_THAT(make_rules(yaml, {{"dp", 4}}, {f32("q", {4})}).error().to_string(), HasSubstr("unknown mesh axis 'dp'"));
  EXPECT_EQ(make_rules(yaml, {}, {f32("w", {4, 4}), f32("w", {4, 4})}).error().message(),
            "two tensors have the name 'w'");
}

TEST(RuleCollection, SharesGeometryOnlyBetweenTensorsThatLieAlike) {
  const std::string yaml =
      "meshes: {d: [tp, pp]}\ntensors:\n  - {match: 'l.{layer}.w', stage: layer, "
      "slice: [{dim: 0, by: tp}]}\n  - {match: '*', slice: [{dim: 0, by: tp}]}\n";
  const auto made =
      make_rules(yaml, {{"tp", 2}, {"pp", 2}},
                 {f32("l.0.w", {4}), f32("l.1.w", {4}), f32("l.2.w", {4}), f32("l.3.w", {6}), f32("o", {4})});
  const auto key = [&](int tensor) { return (*made)->geometry_key(TensorId(tensor)); };
  EXPECT_EQ(key(0), key(1));
  EXPECT_NE(key(0), key(2));
  EXPECT_NE(key(2), key(3));
  EXPECT_NE(key(0), key(4));
}

TEST(RuleCollection, HashFollowsLayoutMeshTensorsAndObjects) {
  const std::string yaml = "meshes: {d: [tp]}\ntensors: [{match: '*', slice: [{dim: 0, by: tp}]}]";
  const auto hash = [](const Made& made) { return (*made)->hash(); };
  const Hash128 one = hash(make_rules(yaml, {{"tp", 2}}, {f32("w", {4})}, {"o"}));
  EXPECT_EQ(one, hash(make_rules(yaml, {{"tp", 2}}, {f32("w", {4})}, {"o"})));
  EXPECT_NE(one, hash(make_rules(yaml + "\n", {{"tp", 2}}, {f32("w", {4})}, {"o"})));
  EXPECT_NE(one, hash(make_rules(yaml, {{"tp", 4}}, {f32("w", {4})}, {"o"})));
  EXPECT_NE(one, hash(make_rules(yaml, {{"tp", 2}}, {f32("v", {4})}, {"o"})));
  EXPECT_NE(one, hash(make_rules(yaml, {{"tp", 2}}, {{"w", DType::kInt32, {4}}}, {"o"})));
  EXPECT_NE(one, hash(make_rules(yaml, {{"tp", 2}}, {f32("w", {4})}, {"p"})));
}

}  // namespace
}  // namespace tenplex
