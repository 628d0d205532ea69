// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/placement_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tenplex/plan/planner.h"
#include "tenplex/plan/testing/gpt_collection.h"
#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

/// One tensor of 16 float32 per pipeline stage, cut over tp: rank = tp + tp_size · stage.
ListedCollection stages(int tp, int pp) {
  std::vector<ListedTensor> tensors;
  for (int stage = 0; stage < pp; ++stage) {
    std::vector<std::vector<DeviceId>> holders;
    for (int rank = 0; rank < tp; ++rank) holders.push_back({DeviceId(rank + tp * stage)});
    tensors.push_back(cut_tensor(fmt::format("stage{}", stage), DType::kFloat32, {16}, 0, holders));
  }
  return ListedCollection(tp * pp, std::move(tensors));
}

PlacementRequest request_of(const Collection& source, const Collection& target, const Topology& topology, int tp) {
  PlacementRequest request;
  request.source = &source;
  request.target = &target;
  request.topology = &topology;
  request.source_slots = Placement::rank_order(source.device_count(), 0).source_slots;
  request.tp_groups = consecutive_groups(target.device_count(), tp);
  return request;
}

double most_sent(const PlacementRequest& request, const Placement& placement) {
  const auto plan = make_plan({request.source, request.target, request.topology, placement});
  EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
  std::vector<double> sent(plan->parts.size());
  for (const WorkerPart& part : plan->parts)
    for (const auto& [worker, bytes] : part.bytes_from) sent[worker.index()] += static_cast<double>(bytes);
  return *std::max_element(sent.begin(), sent.end());
}

// 4 workers of 4 devices, (tp, pp) = (4, 2) → (8, 2), 128 bytes of state. In rank order worker 1 sends stage 1, half of
// the state; with each stage spread over its old worker and a new one, two workers send a quarter each.
TEST(PlacementSearch, SendsAQuarterOfTheStateWhereRankOrderSendsHalf) {
  const ListedCollection source = stages(4, 2);
  const ListedCollection target = stages(8, 2);
  const Topology topology = Topology::uniform(4, 4);
  PlacementRequest request = request_of(source, target, topology, 8);
  const auto placed = place(request);
  ASSERT_TRUE(placed.has_value()) << placed.error().to_string();
  EXPECT_TRUE(placed->exhaustive);
  EXPECT_EQ(most_sent(request, placed->placement), 128.0 / 4);
  EXPECT_DOUBLE_EQ(placed->bytes, 128.0 / 2);
  EXPECT_NEAR(placed->ratio(), 1.0, 1e-6);  // half of the state over two sending links
  request.policy = PlacementPolicy::kRankOrder;
  const auto in_order = place(request);
  ASSERT_TRUE(in_order.has_value());
  EXPECT_EQ(in_order->placement, Placement::rank_order(8, 16));
  EXPECT_EQ(most_sent(request, in_order->placement), 128.0 / 2);
  EXPECT_FLOAT_EQ(static_cast<float>(in_order->busiest_seconds), static_cast<float>(2 * placed->busiest_seconds));
}

TEST(PlacementSearch, HeuristicFindsTheSameHere) {
  const ListedCollection source = stages(4, 2);
  const ListedCollection target = stages(8, 2);
  const Topology topology = Topology::uniform(4, 4);
  PlacementRequest request = request_of(source, target, topology, 8);
  request.max_assignments = 10;
  const auto placed = place(request);
  ASSERT_TRUE(placed.has_value());
  EXPECT_FALSE(placed->exhaustive);
  EXPECT_EQ(most_sent(request, placed->placement), 128.0 / 4);
}

// Two alike groups of two ranks on two alike, empty workers and the source's: groups may go {0,1}, {1,0} (the same),
// and so on. Distinct: both groups on different workers. Source worker 0 holds all; workers 1 and 2 are alike.
// Assignments up to symmetry: (0,1) and (1,2); (0,2) is (0,1) with alike workers exchanged.
TEST(PlacementSearch, CountsDistinctAssignmentsOnly) {
  const ListedCollection source(2, {cut_tensor("w", DType::kFloat32, {4}, 0, {{DeviceId(0)}, {DeviceId(1)}})});
  const ListedCollection target(
      4, {cut_tensor("w", DType::kFloat32, {4}, 0, {{DeviceId(0), DeviceId(2)}, {DeviceId(1), DeviceId(3)}})});
  const Topology topology = Topology::uniform(3, 2);
  const auto placed = place(request_of(source, target, topology, 2));
  ASSERT_TRUE(placed.has_value()) << placed.error().to_string();
  EXPECT_EQ(placed->assignments, 2);
  EXPECT_TRUE(placed->keeps_groups);
  const auto single = place(request_of(source, target, topology, 1));
  ASSERT_TRUE(single.has_value()) << single.error().to_string();
  EXPECT_FALSE(single->keeps_groups);
  EXPECT_EQ(placed->placement.target_slots, (std::vector<int>{0, 1, 2, 3}));
}

TEST(PlacementSearch, KeepsDevicesWhereTheirStateIs) {
  const ListedCollection source = stages(2, 2);
  const Topology topology = Topology::uniform(2, 2);
  PlacementRequest request = request_of(source, source, topology, 2);
  request.source_slots = {3, 2, 1, 0};
  const auto placed = place(request);
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(placed->placement.target_slots, request.source_slots);
  EXPECT_DOUBLE_EQ(placed->bytes, 0);
}

TEST(PlacementSearch, UsesOnlyUsableSlots) {
  const ListedCollection target = stages(2, 1);
  const ListedCollection one(4, {cut_tensor("stage0", DType::kFloat32, {16}, 0, {{DeviceId(0)}, {DeviceId(1)}})});
  const Topology topology = Topology::uniform(2, 2);
  PlacementRequest request = request_of(one, target, topology, 2);
  request.usable_slots = {2, 3};
  EXPECT_EQ(place(request)->placement.target_slots, (std::vector<int>{2, 3}));
  request.usable_slots = {2};
  EXPECT_EQ(place(request).error().to_string(), "placement: the target has 2 ranks, but only 1 devices are usable");
  request.usable_slots = {2, 9};
  EXPECT_EQ(place(request).error().to_string(), "placement: a usable slot lies outside the 4 of the topology");
  request.usable_slots.clear();
  request.tp_groups = {{DeviceId(0)}};
  EXPECT_EQ(place(request).error().to_string(), "placement: rank 1 is in no group");
}

TEST(PlacementSearch, ComparesTheFewDistinctAssignmentsOfManyDevices) {
  // One device becomes a thousand, one on each worker: only which part stays on the first worker makes a difference.
  constexpr int kDevices = 1000;
  std::vector<std::vector<DeviceId>> holders;
  for (int rank = 0; rank < kDevices; ++rank) holders.push_back({DeviceId(rank)});
  const ListedCollection source(1, {cut_tensor("w", DType::kFloat32, {kDevices}, 0, {{DeviceId(0)}})});
  const ListedCollection target(kDevices, {cut_tensor("w", DType::kFloat32, {kDevices}, 0, holders)});
  const Topology topology = Topology::uniform(kDevices, 1);
  PlacementRequest request;
  request.source = &source;
  request.target = &target;
  request.topology = &topology;
  request.source_slots = {0};
  const auto placed = place(request);
  ASSERT_TRUE(placed.has_value()) << placed.error().to_string();
  EXPECT_TRUE(placed->exhaustive);
  EXPECT_EQ(placed->assignments, kDevices);
  EXPECT_EQ(placed->bytes, 4.0 * (kDevices - 1));
}

TEST(PlacementSearch, IsDeterministicOnManyDevices) {
  const GptShape shape{8, 64, 128};
  const GptCollection source(shape, 4, 4, 4);
  const GptCollection target(shape, 4, 2, 4);
  const Topology topology = Topology::uniform(16, 4);
  const PlacementRequest request = request_of(source, target, topology, 4);
  const auto first = place(request);
  const auto second = place(request);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->placement, second->placement);
  EXPECT_GE(first->busiest_seconds, first->bound_seconds * 0.999);
  PlacementRequest in_order = request;
  in_order.policy = PlacementPolicy::kRankOrder;
  EXPECT_LE(first->busiest_seconds, place(in_order)->busiest_seconds);
}

TEST(PlacementPolicy, ReadsItsNames) {
  EXPECT_EQ(*parse_placement_policy("rank-order"), PlacementPolicy::kRankOrder);
  EXPECT_EQ(parse_placement_policy("best").error().to_string(),
            "placement: expected 'keep' or 'rank-order', found 'best'");
}

}  // namespace
}  // namespace tenplex
