// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Plants one kind of damage after another in a good plan; each must be refused with the error that names it.
#include "tenplex/plan/check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tenplex/plan/planner.h"
#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

ListedTensor replicated(std::string name, std::initializer_list<int> ranks) {
  std::vector<DeviceId> holders;
  for (const int rank : ranks) holders.push_back(DeviceId(rank));
  return cut_tensor(std::move(name), DType::kFloat32, {8}, 0, {holders});
}

// Two workers of two devices. Rows of "w" go from two halves on worker 0 to four quarters; "kept" stays on device 0;
// "twice" comes to both devices of worker 1.
struct Example {
  ListedCollection source{4,
                          {cut_tensor("w", DType::kFloat32, {8, 2}, 0, {{DeviceId(0)}, {DeviceId(1)}}),
                           replicated("kept", {0}), replicated("twice", {0})},
                          {{"step", DeviceId(0)}, {"rng", DeviceId(1)}}};
  ListedCollection target{
      4,
      {cut_tensor("w", DType::kFloat32, {8, 2}, 0, {{DeviceId(0)}, {DeviceId(1)}, {DeviceId(2)}, {DeviceId(3)}}),
       replicated("kept", {0}), replicated("twice", {2, 3})},
      {{"step", DeviceId(2)}, {"rng", DeviceId(1)}}};
  Topology topology = Topology::uniform(2, 2);
  PlanInput input{&source, &target, &topology, Placement::rank_order(4, 4)};
};

// Copies into worker 0: w → device 0 (local), w → device 1 (local), kept (alias).
// Copies into worker 1: w → 2 (remote), w → 3 (remote), twice → 2 (remote), twice → 3 (relay).
struct Damage {
  const char* name;
  std::function<void(ExplicitPlan*)> plant;
  const char* error;
};

void shift_box(Copy* copy, std::int64_t offset, std::int64_t extent) {
  for (Piece* piece : {&copy->source, &copy->target}) {
    const std::int64_t moved = offset - piece->box.offset[0];
    piece->box.offset[0] = offset;
    piece->box.extent[0] = extent;
    piece->local_offset += moved * piece->local_strides[0];
  }
  copy->bytes = volume(copy->target.box) * 4;
}

std::vector<Damage> damages() {
  using P = ExplicitPlan;
  const auto w0 = [](P* p) -> Copy& { return p->copies[0][0]; };
  const auto kept = [](P* p) -> Copy& { return p->copies[0][2]; };
  const auto w2 = [](P* p) -> Copy& { return p->copies[1][0]; };
  const auto twice = [](P* p) -> Copy& { return p->copies[1][2]; };
  const auto relay = [](P* p) -> Copy& { return p->copies[1][3]; };
  return {
      {"SourceHash", [](P* p) { ++p->header.source.low; }, "source hash"},
      {"TargetHash", [](P* p) { ++p->header.target.high; }, "target hash"},
      {"RosterHash", [](P* p) { ++p->header.roster.low; }, "roster hash"},
      {"OtherBaseline", [](P* p) { p->header.baseline = Baseline::kFull; }, "baseline is not"},
      {"WorkerLost", [](P* p) { p->copies.pop_back(); }, "expected 2 workers, found 1"},
      {"CopyLost", [](P* p) { p->copies[1].erase(p->copies[1].begin()); }, "shard 2 on device 2 is not filled"},
      {"TensorLost", [](P* p) { p->copies[0].pop_back(); }, "tensor 'kept' is not planned"},
      {"CopyRepeated", [](P* p) { p->copies[1].push_back(p->copies[1][0]); }, "filled twice"},
      {"BoxShorter", [w2](P* p) { shift_box(&w2(p), 4, 1); }, "2 of the sub-tensor's 4 elements"},
      {"BoxLonger", [w2](P* p) { shift_box(&w2(p), 4, 3); }, "target address is not"},
      {"BoxMoved", [w2](P* p) { shift_box(&w2(p), 5, 2); }, "target address is not"},
      {"BoxEmpty", [w2](P* p) { shift_box(&w2(p), 4, 0); }, "box is empty"},
      {"BoxNegative", [w2](P* p) { shift_box(&w2(p), 4, -1); }, "box is empty"},
      {"BoxRank", [w2](P* p) { w2(p).source.box = w2(p).target.box = Box{{4}, {2}}; }, "wrong rank"},
      {"BoxesDiffer", [w2](P* p) { w2(p).source.box.offset[0] = 5; }, "source and target boxes differ"},
      {"SourceOffset", [w2](P* p) { w2(p).source.local_offset += 2; }, "source address is not"},
      {"TargetOffset", [w2](P* p) { w2(p).target.local_offset += 2; }, "target address is not"},
      {"SourceStride", [w2](P* p) { w2(p).source.local_strides[0] = 1; }, "source address is not"},
      {"TargetStride", [w2](P* p) { w2(p).target.local_strides[1] = 2; }, "target address is not"},
      {"SourceShardOfOtherDevice", [w2](P* p) { w2(p).source_shard = 0; }, "does not hold source shard 0"},
      {"SourceShardMissing", [w2](P* p) { w2(p).source_shard = 2; }, "source shard does not exist"},
      {"SourceDeviceOther", [w2](P* p) { w2(p).source_device = DeviceId(0); }, "does not hold source shard 1"},
      {"SourceDeviceMissing", [w2](P* p) { w2(p).source_device = DeviceId(4); }, "source device does not exist"},
      {"SourceDeviceNegative", [w2](P* p) { w2(p).source_device = DeviceId(-1); }, "source device does not exist"},
      {"SourceWorker", [w2](P* p) { w2(p).source_worker = WorkerId(1); }, "source worker is 1"},
      {"TargetWorker", [w2](P* p) { w2(p).target_worker = WorkerId(0); }, "the part of worker 1 has a copy"},
      {"OtherPart",
       [](P* p) {
         p->copies[0].push_back(p->copies[1][0]);
         p->copies[0].back().target_worker = WorkerId(0);
         p->copies[1].erase(p->copies[1].begin());
       },
       "target worker is 0"},
      {"TargetDeviceOther", [w2](P* p) { w2(p).target_device = DeviceId(3); }, "does not hold the target shard"},
      {"TargetDeviceMissing", [w2](P* p) { w2(p).target_device = DeviceId(9); }, "target device does not exist"},
      {"TargetShardMissing", [w2](P* p) { w2(p).target_shard = -1; }, "target shard does not exist"},
      {"SourceTensorOther", [kept](P* p) { kept(p).source_tensor = TensorId(2); }, "source tensor 'twice' differs"},
      {"SourceTensorsMixed", [w2](P* p) { w2(p).source_tensor = TensorId(1); }, "is filled from tensors 0 and 1"},
      {"SourceTensorMissing", [kept](P* p) { kept(p).source_tensor = TensorId(7); }, "source tensor 7 does not exist"},
      {"TargetTensorMissing", [w2](P* p) { w2(p).target_tensor = TensorId(7); }, "target tensor 7 does not exist"},
      {"Bytes", [w2](P* p) { w2(p).bytes = 8; }, "it has 16 bytes, but the plan says 8"},
      {"Class", [w0](P* p) { w0(p).copy_class = CopyClass::kMerge; }, "class is merge, expected split"},
      {"KeepCalledMove", [kept](P* p) { kept(p).copy_class = CopyClass::kMove; }, "class is move, expected keep"},
      {"KeepCopied", [kept](P* p) { kept(p).route = Route::kLocal; }, "only what a device keeps is an alias"},
      {"AliasOfOtherDevice", [twice](P* p) { twice(p).route = Route::kAlias; }, "alias of another device"},
      {"RemoteFromSameWorker", [w0](P* p) { w0(p).route = Route::kRemote; }, "remote copy from the same worker"},
      {"LocalFromOtherWorker", [w2](P* p) { w2(p).route = Route::kLocal; }, "local copy from another worker"},
      {"UnknownRoute", [w2](P* p) { w2(p).route = static_cast<Route>(9); }, "unknown route"},
      {"PulledTwice",
       [relay, twice](P* p) {
         const Copy pull = twice(p);
         relay(p).route = Route::kRemote;
         relay(p).source_device = pull.source_device;
         relay(p).source_worker = pull.source_worker;
       },
       "worker 1 pulls it twice"},
      {"RelayOfItself", [relay](P* p) { relay(p).source_device = relay(p).target_device; },
       "a relay of elements that its source does not pull"},
      {"RelayInACircle",
       [relay, twice](P* p) {
         const Copy back = relay(p);
         twice(p).route = Route::kRelay;
         twice(p).source_device = back.target_device;
         twice(p).source_worker = back.target_worker;
       },
       "a relay of elements that its source does not pull"},
      {"BytesIn", [](P* p) { p->bytes_in[1] -= 1; }, "worker 1 receives 64 bytes, but the plan says 63"},
      {"BytesBound", [](P* p) { p->bytes_in_bound[1] += 1; }, "worker 1 has the bound of 64 bytes"},
      {"ObjectLost", [](P* p) { p->objects.pop_back(); }, "object 'rng' is not copied"},
      {"ObjectRepeated", [](P* p) { p->objects.push_back(p->objects[0]); }, "object 'step' is copied twice"},
      {"ObjectOther", [](P* p) { p->objects[0].source_object = 1; }, "its source is another object"},
      {"ObjectSource", [](P* p) { p->objects[0].source.device = DeviceId(1); }, "source device is not the owner"},
      {"ObjectTarget", [](P* p) { p->objects[0].target.device = DeviceId(3); }, "target device is not the owner"},
      {"ObjectWorker", [](P* p) { p->objects[0].target.worker = WorkerId(0); }, "target worker is not the owner's"},
      {"ObjectRoute", [](P* p) { p->objects[0].route = Route::kLocal; }, "route is local, expected remote"},
      {"ObjectMissing", [](P* p) { p->objects[0].target_object = 5; }, "target object 5 does not exist"},
  };
}

class PlantedDamage : public testing::TestWithParam<Damage> {};

TEST_P(PlantedDamage, IsRefused) {
  const Example example;
  const auto plan = make_plan(example.input);
  ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
  ExplicitPlan damaged = plan->to_explicit();
  const auto good = check(damaged, example.input);
  ASSERT_TRUE(good.has_value()) << good.error().to_string();
  GetParam().plant(&damaged);
  const auto result = check(damaged, example.input);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().to_string().find(GetParam().error), std::string::npos) << result.error().to_string();
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlantedDamage, testing::ValuesIn(damages()),
                         [](const auto& kind) { return std::string(kind.param.name); });

// The source needs no network copy at all here, so any is too much.
TEST(Check, RefusesToPullWhatTheWorkerHolds) {
  const ListedCollection source(2, {replicated("w", {0, 1})});
  const Topology topology = Topology::uniform(2, 1);
  const PlanInput input{&source, &source, &topology, Placement::rank_order(2, 2)};
  const ListedCollection split_source(
      2, {cut_tensor("w", DType::kFloat32, {8}, 0, {{DeviceId(0), DeviceId(1)}, {DeviceId(0), DeviceId(1)}})});
  PlanInput split = input;
  split.source = &split_source;
  ExplicitPlan plan = make_plan(split)->to_explicit();
  ASSERT_TRUE(check(plan, split).has_value());
  Copy& copy = plan.copies[1][0];
  copy.route = Route::kRemote;
  copy.source_device = DeviceId(0);
  copy.source_worker = WorkerId(0);
  EXPECT_NE(check(plan, split).error().to_string().find("worker 1 pulls what it holds"), std::string::npos);
}

// The planner believes a collection that says two tensors are cut alike; the proof looks for itself.
TEST(Check, RefusesAGroupWhoseTensorsDifferThoughTheirKeysAgree) {
  const auto halves = [](const char* name, int first, int second) {
    ListedTensor tensor = cut_tensor(name, DType::kFloat32, {8, 2}, 0, {{DeviceId(first)}, {DeviceId(second)}});
    tensor.geometry = 7;
    return tensor;
  };
  const auto columns = [] {
    ListedTensor tensor = cut_tensor("b", DType::kFloat32, {8, 2}, 1, {{DeviceId(0)}, {DeviceId(1)}});
    tensor.geometry = 7;
    return tensor;
  };
  const ListedCollection alike(2, {halves("a", 0, 1), halves("b", 0, 1)});
  const ListedCollection other_boxes(2, {halves("a", 0, 1), columns()});
  const ListedCollection other_holders(2, {halves("a", 0, 1), halves("b", 1, 0)});
  const ListedCollection target(2, {halves("a", 1, 0), halves("b", 1, 0)});
  const Topology topology = Topology::uniform(2, 1);
  for (const ListedCollection* source : {&alike, &other_boxes, &other_holders}) {
    const PlanInput input{source, &target, &topology, Placement::rank_order(2, 2)};
    const Plan plan = *make_plan(input);
    ASSERT_EQ(plan.groups.size(), 1U);
    const auto result = check(plan, input);
    EXPECT_EQ(result ? "" : result.error().to_string(),
              source == &alike ? "" : "plan: tensors 'a' and 'b' are in one group, but are not cut alike");
  }
}

class SymbolicDamage : public testing::Test {
 protected:
  SymbolicDamage() : plan_(*make_plan(example_.input)) {}
  std::string error() {
    const auto result = check(plan_, example_.input);
    return result ? "" : result.error().to_string();
  }
  Example example_;
  Plan plan_;
};

TEST_F(SymbolicDamage, GroupOfTensorsThatAreNotCutAlike) {
  EXPECT_EQ(error(), "");
  plan_.groups[1].tensors.push_back(plan_.groups[2].tensors[0]);
  EXPECT_EQ(error(), "plan: tensors 'kept' and 'twice' are in one group, but are not cut alike");
}

TEST_F(SymbolicDamage, TensorTwice) {
  plan_.groups[1].tensors.push_back(plan_.groups[1].tensors[0]);
  EXPECT_EQ(error(), "plan: tensor 'kept' is planned twice");
}

TEST_F(SymbolicDamage, GroupLost) {
  plan_.groups.pop_back();
  EXPECT_EQ(error(), "plan: tensor 'twice' is not planned");
}

TEST_F(SymbolicDamage, PartOfAGroupLost) {
  plan_.parts[1].groups.erase(plan_.parts[1].groups.begin());
  EXPECT_EQ(error(), "plan: tensor 'w' shard 2 on device 2 is not filled");
}

TEST_F(SymbolicDamage, PartTwice) {
  plan_.parts[0].groups.push_back(plan_.parts[0].groups[0]);
  EXPECT_EQ(error(), "plan: the part of worker 0 has groups that do not exist or are out of order");
}

TEST_F(SymbolicDamage, SendersThatDoNotAddUp) {
  plan_.parts[1].bytes_from[0].second -= 4;
  EXPECT_EQ(error(), "plan: worker 0 sends 64 bytes to worker 1, but the plan says 60");
}

}  // namespace
}  // namespace tenplex
