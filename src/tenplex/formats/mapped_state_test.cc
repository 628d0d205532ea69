// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/mapped_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/formats/state/flatten.h"
#include "tenplex/ptc/map_tensors.h"
#include "tenplex/ptc/testing/tensor_infos.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A checkpoint whose tree is a dict; tensors are numbered in the order in which they are added.
struct Checkpoint {
  CheckpointInfo info;
  std::vector<NodeId> entries;

  NodeId tensor(const std::string& name, const Dims& shape) {
    info.tensors.push_back(f32(name, shape));
    const TensorId id(info.tensors.size() - 1);
    return info.state.add_tensor({id, static_cast<std::uint32_t>(id.index()) + 1, 0, row_major_strides(shape)});
  }
  void add(const std::string& key, NodeId value) {
    entries.push_back(info.state.add_string(key));
    entries.push_back(value);
  }
  void add_tensor(const std::string& name, const Dims& shape) { add(name, tensor(name, shape)); }
  void finish() { info.state.root = info.state.add_dict(entries); }
};

constexpr std::string_view kMap =
    "sides: [a, b]\ntensors:\n  - {a: [k, v], b: kv, widths: [1, 1]}\n  - {a: x, b: y}\n  - {a: x2, b: y2}\n";

/// The tree under the names of side b.
Result<CheckpointInfo> mapped(const CheckpointInfo& stored) {
  TENPLEX_ASSIGN_OR_RETURN(const auto made, map_tensors(parse_naming_map(kMap, "m").value(), stored.tensors, {},
                                                        tensors_in_objects(stored)));
  CheckpointInfo info;
  info.tensors = made.map.targets;
  TENPLEX_TRY(map_state(stored, made.map, &info));
  return info;
}

std::vector<std::string> names(const Result<CheckpointInfo>& info) {
  if (!info) return {info.error().to_string()};
  std::vector<std::string> texts;
  const LeafList leaves = flatten(info->state).value();
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    std::string text = leaves.name(leaf);
    if (info->state[leaves.node(leaf)].kind == NodeKind::kTensor)
      text += " = " + info->tensors[info->state.view(leaves.node(leaf)).tensor.index()].name;
    texts.push_back(text);
  }
  return texts;
}

Checkpoint with_common() {
  Checkpoint made;
  made.add_tensor("k", {2});
  StateGraph& state = made.info.state;
  made.add("common", state.add_dict({state.add_string("iteration"), state.add_int(70), state.add_string("seed"),
                                     made.tensor("common.seed", {3})}));
  made.add_tensor("v", {2});
  made.add("rng_state/shard_0.0_1.1", state.add_list({state.add_int(1)}));
  return made;
}

TEST(MappedState, KeepsWhatIsCommonAndRenamesTheRest) {
  Checkpoint made = with_common();
  made.finish();
  const auto info = mapped(made.info);
  EXPECT_THAT(names(info),
              ElementsAre("kv = kv", "common.iteration", "common.seed = common.seed", "rng_state/shard_0.0_1.1"));
  EXPECT_TRUE(info->problems.empty());
}

TEST(MappedState, RefusesObjectsElsewhere) {
  Checkpoint made = with_common();
  made.add("iteration", made.info.state.add_int(3));
  made.finish();
  EXPECT_THAT(names(mapped(made.info)).front(),
              HasSubstr("object 'iteration' has no place among tensors with other names"));
}

TEST(MappedState, KeepsTiesOfTensorsThatAreOnlyRenamed) {
  Checkpoint made = with_common();
  made.add_tensor("x", {4});
  made.info.tensors.push_back(f32("x2", {4}));
  const TensorView first = made.info.state.view(made.entries.back());
  TensorView second = first;
  second.tensor = TensorId(made.info.tensors.size() - 1);
  made.add("x2", made.info.state.add_tensor(second));
  made.finish();
  const auto info = mapped(made.info);
  ASSERT_TRUE(info) << info.error().to_string();
  const auto& children = info->state[info->state.root].children;
  std::vector<std::uint32_t> storages;
  for (std::size_t at = 1; at < children.size(); at += 2)
    if (info->state[children[at]].kind == NodeKind::kTensor) storages.push_back(info->state.view(children[at]).storage);
  ASSERT_EQ(storages.size(), 3U);  // kv, y, y2
  EXPECT_NE(storages[0], storages[1]);
  EXPECT_EQ(storages[1], storages[2]);
}

/// What is said of k [2] and v [2], which the map joins, where both lie in one storage.
std::vector<std::string> problems_of_one_storage(std::int64_t offset_of_v) {
  Checkpoint made = with_common();
  StateGraph& state = made.info.state;
  TensorView view = state.view(made.entries[1]);
  const std::uint32_t storage = view.storage;
  view = state.view(made.entries[5]);
  view.storage = storage;
  view.offset = offset_of_v;
  state.set_view(made.entries[5], view);
  made.finish();
  return mapped(made.info)->problems;
}

TEST(MappedState, SaysWhichTensorsNoLongerShareMemory) {
  EXPECT_THAT(problems_of_one_storage(2), ElementsAre());  // side by side in a flat buffer
  EXPECT_THAT(problems_of_one_storage(1), ElementsAre("'k' and 'v' shared memory, what becomes of them does not"));
  EXPECT_THAT(problems_of_one_storage(0), ElementsAre("'k' and 'v' shared memory, what becomes of them does not"));
}

/// The storages of y and y2 after x [4] and x2 [4], which are only renamed, lay in one: x at 0, x2 at this offset.
std::pair<std::uint32_t, std::uint32_t> storages_of_renamed(std::int64_t offset, const Dims& strides) {
  Checkpoint made = with_common();
  made.add_tensor("x", {4});
  const TensorView first = made.info.state.view(made.entries.back());
  made.add_tensor("x2", {4});
  TensorView second = made.info.state.view(made.entries.back());
  second.storage = first.storage;
  second.offset = offset;
  second.strides = strides;
  made.info.state.set_view(made.entries.back(), second);
  made.finish();
  const auto info = mapped(made.info);
  const auto& children = info->state[info->state.root].children;
  std::vector<std::uint32_t> storages;
  for (const NodeId child : children)
    if (info->state[child].kind == NodeKind::kTensor) storages.push_back(info->state.view(child).storage);
  return {storages.at(1), storages.at(2)};
}

TEST(MappedState, TiesNoTwoTensorsThatHaveOtherElements) {
  const auto [first, same] = storages_of_renamed(0, {1});
  EXPECT_EQ(first, same);
  for (const auto& [offset, strides] : std::vector<std::pair<std::int64_t, Dims>>{{4, {1}}, {2, {1}}, {0, {2}}}) {
    const auto [one, other] = storages_of_renamed(offset, strides);
    EXPECT_NE(one, other) << offset << " " << to_string(strides);
  }
}

TEST(MappedState, KeepsTensorsWithoutElements) {
  Checkpoint made;
  made.add_tensor("x", {4});
  StateGraph& state = made.info.state;
  made.add("common", state.add_dict({state.add_string("none"), made.tensor("common.none", {0, 3})}));
  made.finish();
  EXPECT_THAT(names(mapped(made.info)), ElementsAre("y = y", "common.none = common.none"));
}

TEST(MappedState, LeavesAPlainTreeOut) {
  Checkpoint made;
  made.add_tensor("x", {2});
  made.finish();
  const auto info = mapped(made.info);
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_EQ(info->state.root, kNoNode);
}

}  // namespace
}  // namespace tenplex
