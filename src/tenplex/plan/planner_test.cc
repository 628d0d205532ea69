// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/planner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tenplex/plan/bounds.h"
#include "tenplex/plan/check.h"
#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

std::vector<DeviceId> devices(std::initializer_list<int> ranks) {
  std::vector<DeviceId> ids;
  for (const int rank : ranks) ids.push_back(DeviceId(rank));
  return ids;
}

/// A proven plan.
Plan plan_of(const PlanInput& input) {
  auto plan = make_plan(input);
  EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
  const auto proof = check(*plan, input);
  EXPECT_TRUE(proof.has_value()) << proof.error().to_string();
  return std::move(plan).value();
}

std::vector<Copy> copies_into(const Plan& plan, int worker) {
  std::vector<Copy> copies;
  plan.for_each_copy(WorkerId(worker), [&](const Copy& copy) { copies.push_back(copy); });
  return copies;
}

using From = std::vector<std::pair<WorkerId, std::int64_t>>;

// The example of docs/plans.md, with a fast link beside the holders. A shard of 600 rows of 8 bytes is held by workers
// with links of 1, 2 and 3 units. A fourth worker needs it. The least time sends 100, 200 and 300 rows: 800, 1600 and
// 2400 bytes, each taking 800 / unit; any other split takes longer.
TEST(Planner, DividesABoxInProportionToUnequalLinks) {
  const ListedCollection source(3, {cut_tensor("w", DType::kFloat32, {600, 2}, 0, {devices({0, 1, 2})})});
  const ListedCollection target(1, {cut_tensor("w", DType::kFloat32, {600, 2}, 0, {devices({0})})});
  const Topology topology({Worker{"a", 1, 1000, 100, ""}, Worker{"b", 1, 1000, 200, ""}, Worker{"c", 1, 1000, 300, ""},
                           Worker{"d", 1, 1'000'000'000, 1'000'000'000, ""}});
  const PlanInput input{&source, &target, &topology, {{0, 1, 2}, {3}}};
  const Plan plan = plan_of(input);
  EXPECT_EQ(plan.parts[3].bytes_from, (From{{WorkerId(0), 800}, {WorkerId(1), 1600}, {WorkerId(2), 2400}}));
  const auto copies = copies_into(plan, 3);
  ASSERT_EQ(copies.size(), 3U);
  EXPECT_EQ(to_string(copies[0].source.box), "[0:100, 0:2]");
  EXPECT_EQ(to_string(copies[1].source.box), "[100:300, 0:2]");
  EXPECT_EQ(to_string(copies[2].source.box), "[300:600, 0:2]");
  const LinkBounds bounds = link_bounds(plan, input);
  EXPECT_DOUBLE_EQ(bounds.busiest_seconds, 8.0);
  EXPECT_DOUBLE_EQ(bounds.bound_seconds, 8.0);  // 4800 bytes over 600 bytes per second
  EXPECT_DOUBLE_EQ(bounds.ratio(), 1.0);
}

// Device 1 holds an empty shard: the worker's link cannot help, and the bound says so.
TEST(Planner, BoundsCountOnlyWorkersThatHoldSomething) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0})}),
                                    cut_tensor("e", DType::kFloat32, {0}, 0, {devices({1})})});
  const ListedCollection target(1, {cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0})}),
                                    cut_tensor("e", DType::kFloat32, {0}, 0, {devices({0})})});
  const Topology topology({Worker{"a", 1, 1000, 1, ""}, Worker{"b", 1, 1000, 1, ""}, Worker{"c", 1, 1000, 1, ""}});
  const PlanInput input{&source, &target, &topology, {{0, 1}, {2}}};
  const LinkBounds bounds = link_bounds(plan_of(input), input);
  EXPECT_DOUBLE_EQ(bounds.busiest_seconds, 16.0);
  EXPECT_DOUBLE_EQ(bounds.bound_seconds, 16.0);
}

// 1,000,001 rows of 8 bytes: one row takes the slow link 8 ms, a million take the fast one 8 ms. With 1000 rows the
// share of the slow link is less than a row.
TEST(Planner, KeepsProportionsOfOneToAMillion) {
  const Topology topology({Worker{"slow", 1, 1000, 1000, ""}, Worker{"fast", 1, 1000, 1'000'000'000, ""},
                           Worker{"c", 1, 1000, 1'000'000'000'000, ""}});
  const auto bytes_from = [&](std::int64_t rows) {
    const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {rows, 2}, 0, {devices({0, 1})})});
    const ListedCollection target(1, {cut_tensor("w", DType::kFloat32, {rows, 2}, 0, {devices({0})})});
    return plan_of({&source, &target, &topology, {{0, 1}, {2}}}).parts[2].bytes_from;
  };
  EXPECT_EQ(bytes_from(1'000'001), (From{{WorkerId(0), 8}, {WorkerId(1), 8'000'000}}));
  EXPECT_EQ(bytes_from(1000), (From{{WorkerId(1), 8000}}));
}

// Links of 1, 2 and 3 GB/s. Slices take 1 ms each, and thus are worth it, from 6 MB on, or have 1 MiB on average from
// 3 MiB on. Here only one limit is passed at a time.
TEST(Planner, DividesWhatIsLargeOrTakesLong) {
  const auto senders = [](std::int64_t unit, std::int64_t bytes) {
    const ListedCollection source(3, {cut_tensor("w", DType::kUInt8, {bytes}, 0, {devices({0, 1, 2})})});
    const ListedCollection target(1, {cut_tensor("w", DType::kUInt8, {bytes}, 0, {devices({0})})});
    const Topology topology({Worker{"a", 1, 1000, unit, ""}, Worker{"b", 1, 1000, 2 * unit, ""},
                             Worker{"c", 1, 1000, 3 * unit, ""}, Worker{"d", 1, 1000, 1000, ""}});
    return plan_of({&source, &target, &topology, {{0, 1, 2}, {3}}}).parts[3].bytes_from.size();
  };
  EXPECT_EQ(senders(1'000'000'000, 3 * 1'048'576 - 1), 1U);
  EXPECT_EQ(senders(1'000'000'000, 3 * 1'048'576), 3U);
  EXPECT_EQ(senders(1'000'000, 5999), 1U);  // 6 MB/s together: 6000 bytes in 1 ms
  EXPECT_EQ(senders(1'000'000, 6000), 3U);
}

// Six tensors of 40, 44, … 60 bytes, each a group of its own: turns 0 to 5 among links of 1 : 2 : 3 go to c, b, c, a,
// b, c.
TEST(Planner, SpreadsSmallTensorsOfDifferentShapes) {
  std::vector<ListedTensor> from;
  std::vector<ListedTensor> to;
  for (int tensor = 0; tensor < 6; ++tensor) {
    from.push_back(cut_tensor(fmt::format("t{}", tensor), DType::kFloat32, {10 + tensor}, 0, {devices({0, 1, 2})}));
    to.push_back(cut_tensor(fmt::format("t{}", tensor), DType::kFloat32, {10 + tensor}, 0, {devices({0})}));
  }
  const ListedCollection source(3, from);
  const ListedCollection target(1, to);
  const Topology topology({Worker{"a", 1, 1000, 1'000'000'000, ""}, Worker{"b", 1, 1000, 2'000'000'000, ""},
                           Worker{"c", 1, 1000, 3'000'000'000, ""}, Worker{"d", 1, 1000, 100, ""}});
  const Plan plan = plan_of({&source, &target, &topology, {{0, 1, 2}, {3}}});
  EXPECT_EQ(plan.groups.size(), 6U);
  // 52; 44 + 56; 40 + 48 + 60.
  EXPECT_EQ(plan.parts[3].bytes_from, (From{{WorkerId(0), 52}, {WorkerId(1), 100}, {WorkerId(2), 148}}));
}

// Twelve small tensors that are cut alike, the same links: 2, 4 and 6 tensors.
TEST(Planner, GivesSmallTensorsToHoldersInTurnsInProportionToTheirLinks) {
  std::vector<ListedTensor> from;
  std::vector<ListedTensor> to;
  for (int tensor = 0; tensor < 12; ++tensor) {
    from.push_back(cut_tensor(fmt::format("t{}", tensor), DType::kFloat32, {10}, 0, {devices({0, 1, 2})}));
    to.push_back(cut_tensor(fmt::format("t{}", tensor), DType::kFloat32, {10}, 0, {devices({0})}));
    from.back().geometry = to.back().geometry = 7;
  }
  const ListedCollection source(3, from);
  const ListedCollection target(1, to);
  const Topology topology({Worker{"a", 1, 1000, 100, ""}, Worker{"b", 1, 1000, 200, ""}, Worker{"c", 1, 1000, 300, ""},
                           Worker{"d", 1, 1000, 100, ""}});
  const Plan plan = plan_of({&source, &target, &topology, {{0, 1, 2}, {3}}});
  EXPECT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.parts[3].bytes_from, (From{{WorkerId(0), 80}, {WorkerId(1), 160}, {WorkerId(2), 240}}));
}

// One tensor, two holders, four receivers: each holder serves two.
TEST(Planner, StartsReceiversWithDifferentHolders) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {8}, 0, {devices({0, 1})})});
  const ListedCollection target(6, {cut_tensor("w", DType::kFloat32, {8}, 0, {devices({0, 1, 2, 3, 4, 5})})});
  const Topology topology = Topology::uniform(6, 1);
  const Plan plan = plan_of({&source, &target, &topology, Placement::rank_order(2, 6)});
  EXPECT_EQ(bytes_out(plan), (std::vector<std::int64_t>{64, 64, 0, 0, 0, 0}));
}

TEST(Planner, AsksOnlyHoldersThatAreNear) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {8}, 0, {devices({0, 1})})});
  const ListedCollection target(2, {cut_tensor("w", DType::kFloat32, {8}, 0, {devices({0, 1})})});
  const Topology topology({Worker{"a", 1, 100, 100, "x"}, Worker{"b", 1, 100, 100, "y"}, Worker{"c", 1, 100, 100, "y"},
                           Worker{"d", 1, 100, 100, "y"}});
  const Plan plan = plan_of({&source, &target, &topology, {{0, 1}, {2, 3}}});
  EXPECT_EQ(plan.parts[2].bytes_from, (From{{WorkerId(1), 32}}));
  EXPECT_EQ(plan.parts[3].bytes_from, (From{{WorkerId(1), 32}}));
}

TEST(Planner, PullsOnceWhatTwoDevicesOfAWorkerNeed) {
  const ListedCollection source(1, {cut_tensor("w", DType::kFloat32, {8}, 0, {devices({0})})});
  const ListedCollection target(2, {cut_tensor("w", DType::kFloat32, {8}, 0, {devices({0, 1})})});
  const Topology topology = Topology::uniform(2, 2);
  const Plan plan = plan_of({&source, &target, &topology, {{0}, {2, 3}}});
  const auto copies = copies_into(plan, 1);
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].route, Route::kRemote);
  EXPECT_EQ(copies[0].target_device, DeviceId(0));
  EXPECT_EQ(copies[1].route, Route::kRelay);
  EXPECT_EQ(copies[1].source_device, DeviceId(0));
  EXPECT_EQ(copies[1].target_device, DeviceId(1));
  EXPECT_EQ(plan.parts[1].bytes_in, 32);
  EXPECT_EQ(plan.parts[1].bytes_in_bound, 32);
}

TEST(Planner, ClassesCopies) {
  // a stays, b changes device, c is cut in two, d is joined from two.
  const ListedCollection source(2, {cut_tensor("a", DType::kFloat32, {4}, 0, {devices({0})}),
                                    cut_tensor("b", DType::kFloat32, {4}, 0, {devices({0})}),
                                    cut_tensor("c", DType::kFloat32, {4}, 0, {devices({0})}),
                                    cut_tensor("d", DType::kFloat32, {4}, 0, {devices({0}), devices({1})})});
  const ListedCollection target(2, {cut_tensor("a", DType::kFloat32, {4}, 0, {devices({0})}),
                                    cut_tensor("b", DType::kFloat32, {4}, 0, {devices({1})}),
                                    cut_tensor("c", DType::kFloat32, {4}, 0, {devices({0}), devices({1})}),
                                    cut_tensor("d", DType::kFloat32, {4}, 0, {devices({0})})});
  const Topology topology = Topology::uniform(2, 1);
  const Plan plan = plan_of({&source, &target, &topology, Placement::rank_order(2, 2)});
  const auto first = copies_into(plan, 0);
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(std::pair(first[0].copy_class, first[0].route), std::pair(CopyClass::kKeep, Route::kAlias));
  EXPECT_EQ(std::pair(first[1].copy_class, first[1].route), std::pair(CopyClass::kSplit, Route::kLocal));
  EXPECT_EQ(std::pair(first[2].copy_class, first[2].route), std::pair(CopyClass::kMerge, Route::kLocal));
  EXPECT_EQ(std::pair(first[3].copy_class, first[3].route), std::pair(CopyClass::kMerge, Route::kRemote));
  const auto second = copies_into(plan, 1);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(std::pair(second[0].copy_class, second[0].route), std::pair(CopyClass::kMove, Route::kRemote));
  EXPECT_EQ(std::pair(second[1].copy_class, second[1].route), std::pair(CopyClass::kSplit, Route::kRemote));
}

// 4 bytes on each of 4 workers, every worker needs the second next one's: the central worker collects 12 bytes and
// sends 12; full and minimal plans move 4 into each.
TEST(Planner, CentralBaselineCollectsAndSendsEverything) {
  const auto parts = [](int shift) {
    std::vector<std::vector<DeviceId>> holders;
    for (int part = 0; part < 4; ++part) holders.push_back(devices({(part + shift) % 4}));
    return ListedCollection(4, {cut_tensor("w", DType::kFloat32, {4}, 0, holders)});
  };
  const ListedCollection source = parts(0);
  const ListedCollection target = parts(2);
  const Topology topology = Topology::uniform(4, 1);
  PlanInput input{&source, &target, &topology, Placement::rank_order(4, 4), Baseline::kCentral, WorkerId(1)};
  const Plan central = plan_of(input);
  EXPECT_EQ(central.parts[0].bytes_from, (From{{WorkerId(1), 4}}));
  EXPECT_EQ(central.parts[1].bytes_from, (From{{WorkerId(0), 4}, {WorkerId(2), 4}, {WorkerId(3), 4}}));
  EXPECT_EQ(bytes_out(central), (std::vector<std::int64_t>{4, 12, 4, 4}));
}

TEST(Planner, FullBaselineMovesWhatIsAlreadyThere) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0, 1})})});
  const Topology topology = Topology::uniform(2, 1);
  PlanInput input{&source, &source, &topology, Placement::rank_order(2, 2)};
  EXPECT_EQ(plan_of(input).parts[0].bytes_in, 0);
  input.baseline = Baseline::kFull;
  const Plan full = plan_of(input);
  EXPECT_EQ(full.parts[0].bytes_in, 16);
  EXPECT_EQ(full.parts[0].bytes_in_bound, 0);
}

TEST(Planner, SendsObjectsToTheirOwners) {
  const auto tensor = cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0})});
  const ListedCollection source(2, {tensor}, {{"rng", DeviceId(0)}, {"step", DeviceId(0)}});
  const ListedCollection target(2, {tensor}, {{"step", DeviceId(1)}, {"rng", DeviceId(0)}});
  const Topology topology = Topology::uniform(2, 1);
  const Plan plan = plan_of({&source, &target, &topology, Placement::rank_order(2, 2)});
  ASSERT_EQ(plan.parts[0].objects.size(), 1U);
  EXPECT_EQ(plan.parts[0].objects[0].route, Route::kAlias);
  ASSERT_EQ(plan.parts[1].objects.size(), 1U);
  EXPECT_EQ(plan.parts[1].objects[0].source_object, 1);
  EXPECT_EQ(plan.parts[1].objects[0].route, Route::kRemote);
}

class PlannerErrors : public testing::Test {
 protected:
  std::string error(const ListedCollection& source, const ListedCollection& target) {
    const auto plan =
        make_plan({&source, &target, &topology_, Placement::rank_order(source.device_count(), target.device_count())});
    return plan ? "" : plan.error().to_string();
  }
  Topology topology_ = Topology::uniform(2, 1);
};

TEST_F(PlannerErrors, NameTheTensorAndTheBoxThatNobodyHolds) {
  ListedTensor half = cut_tensor("w", DType::kFloat32, {4, 4}, 0, {devices({0}), devices({1})});
  half.shards.pop_back();
  const ListedCollection source(1, {half});
  const ListedCollection target(1, {cut_tensor("w", DType::kFloat32, {4, 4}, 1, {devices({0})})});
  EXPECT_EQ(error(source, target), "tensor 'w': no source device holds [2:4, 0:4]");
}

TEST_F(PlannerErrors, NameWhatOneSideLacksOrDiffers) {
  const auto of = [](const char* name, DType dtype, const Dims& shape) {
    return ListedCollection(1, {cut_tensor(name, dtype, shape, 0, {{DeviceId(0)}})});
  };
  const ListedCollection source = of("w", DType::kFloat32, {4});
  EXPECT_EQ(error(source, of("v", DType::kFloat32, {4})), "tensor 'v' is not in the source");
  EXPECT_EQ(error(source, ListedCollection(1, {})), "tensor 'w' of the source is not in the target");
  EXPECT_EQ(error(source, of("w", DType::kFloat16, {4})),
            "tensor 'w': dtype is float32 in the source and float16 in the target");
  EXPECT_EQ(error(source, of("w", DType::kFloat32, {2, 2})),
            "tensor 'w': shape is [4] in the source and [2, 2] in the target");
  EXPECT_EQ(error(ListedCollection(3, {}), ListedCollection(1, {})),
            "placement: source rank 2 is on slot 2, but the topology has 2 slots");
}

TEST_F(PlannerErrors, NameReplicasThatDisagree) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0, 1})})});
  PlanInput input{&source, &source, &topology_, Placement::rank_order(2, 2)};
  input.disagreements.push_back({TensorId(0), 0, DeviceId(0), DeviceId(1)});
  const auto plan = make_plan(input);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(plan.error().to_string(), "replicas disagree: tensor 'w' shard 0 on devices 0 and 1");
}

TEST_F(PlannerErrors, RefuseAStalePlan) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0, 1})})});
  const ListedCollection other(2, {cut_tensor("w", DType::kFloat32, {4}, 0, {devices({0})})});
  PlanInput input{&source, &source, &topology_, Placement::rank_order(2, 2)};
  const Plan plan = plan_of(input);
  EXPECT_TRUE(check_fresh(plan.header, input).has_value());
  const Topology larger = Topology::uniform(3, 1);
  const auto message = [&](const PlanInput& now) { return check_fresh(plan.header, now).error().to_string(); };
  PlanInput changed = input;
  changed.topology = &larger;
  EXPECT_EQ(message(changed).substr(0, 39),
            std::string("stale plan: it was made for roster ") + to_string(plan.header.roster).substr(0, 4));
  changed = input;
  changed.source = &other;
  EXPECT_EQ(message(changed).substr(0, 45), "stale plan: it was made for source collection");
  changed = input;
  changed.target = &other;
  EXPECT_EQ(message(changed).substr(0, 45), "stale plan: it was made for target collection");
  changed = input;
  changed.placement.target_slots = {1, 0};
  EXPECT_FALSE(check_fresh(plan.header, changed).has_value());
}

}  // namespace
}  // namespace tenplex
