// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The planner against an oracle that knows single elements only: every element of a tensor has a number, devices are
// arrays of such numbers, and a plan is run on them.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "tenplex/plan/check.h"
#include "tenplex/plan/planner.h"
#include "tenplex/plan/testing/random_collection.h"

namespace tenplex {
namespace {

/// Calls visit(number of the element in its tensor, position in the local array) for the elements of a piece.
template <typename Visit>
void for_each_element(const Dims& shape, const Piece& piece, Visit visit) {
  const Dims strides = row_major_strides(shape);
  for (std::int64_t index = 0; index < volume(piece.box); ++index) {
    std::int64_t rest = index;
    std::int64_t number = 0;
    std::int64_t position = piece.local_offset;
    for (int dim = piece.box.rank() - 1; dim >= 0; --dim) {
      const std::int64_t step = rest % piece.box.extent[dim];
      rest /= piece.box.extent[dim];
      number += (piece.box.offset[dim] + step) * strides[dim];
      position += step * piece.local_strides[dim];
    }
    visit(number, position);
  }
}

using ShardKey = std::tuple<int, std::int64_t, int>;  // tensor, shard, device
using Memory = std::map<ShardKey, std::vector<std::int64_t>>;

constexpr std::int64_t kUnset = -1;

Memory empty_memory(const Collection& collection) {
  Memory memory;
  for (std::size_t tensor = 0; tensor < collection.tensors().size(); ++tensor)
    for (std::int64_t number = 0; number < collection.shard_count(TensorId(tensor)); ++number) {
      SubTensor shard;
      std::vector<DeviceId> holders;
      collection.shard(TensorId(tensor), number, &shard);
      collection.holders(TensorId(tensor), number, &holders);
      for (const DeviceId device : holders)
        memory[{static_cast<int>(tensor), number, device.value()}].assign(
            static_cast<std::size_t>(volume(shard.local_shape)), kUnset);
    }
  return memory;
}

Memory full_memory(const Collection& collection) {
  Memory memory = empty_memory(collection);
  for (auto& [key, local] : memory) {
    SubTensor shard;
    collection.shard(TensorId(std::get<0>(key)), std::get<1>(key), &shard);
    for (const Piece& piece : shard.pieces)
      for_each_element(
          collection.tensors()[static_cast<std::size_t>(std::get<0>(key))].shape, piece,
          [&local](std::int64_t number, std::int64_t position) { local[static_cast<std::size_t>(position)] = number; });
  }
  return memory;
}

void run(const Copy& copy, const Dims& shape, const Memory& from, Memory* to) {
  const auto& source = from.at({copy.source_tensor.value(), copy.source_shard, copy.source_device.value()});
  auto& target = to->at({copy.target_tensor.value(), copy.target_shard, copy.target_device.value()});
  std::vector<std::int64_t> values;
  for_each_element(shape, copy.source, [&](std::int64_t, std::int64_t position) {
    values.push_back(source.at(static_cast<std::size_t>(position)));
  });
  std::size_t next = 0;
  for_each_element(shape, copy.target, [&](std::int64_t, std::int64_t position) {
    EXPECT_EQ(target.at(static_cast<std::size_t>(position)), kUnset) << "written twice";
    target.at(static_cast<std::size_t>(position)) = values[next++];
  });
}

Memory run(const Plan& plan, const PlanInput& input) {
  const Memory source = full_memory(*input.source);
  Memory target = empty_memory(*input.target);
  for (const bool relays : {false, true})
    for (const WorkerPart& part : plan.parts)
      plan.for_each_copy(part.worker, [&](const Copy& copy) {
        const bool relay = copy.route == Route::kRelay;
        if (relay != relays) return;
        run(copy, input.target->tensors()[copy.target_tensor.index()].shape, relay ? target : source, &target);
      });
  return target;
}

/// Bytes of the elements that devices of the worker need and none of them holds.
std::int64_t missing_bytes(const PlanInput& input, WorkerId worker) {
  const auto on_worker = [&](const Collection& collection, const std::vector<int>& slots) {
    std::set<std::pair<int, std::int64_t>> elements;
    for (const auto& [key, local] : full_memory(collection))
      if (input.topology->worker_of_slot(slots[static_cast<std::size_t>(std::get<2>(key))]) == worker)
        for (const std::int64_t number : local)
          if (number != kUnset) elements.emplace(std::get<0>(key), number);
    return elements;
  };
  const auto held = on_worker(*input.source, input.placement.source_slots);
  std::int64_t bytes = 0;
  for (const auto& element : on_worker(*input.target, input.placement.target_slots))
    if (held.count(element) == 0)
      bytes += size_bytes(input.target->tensors()[static_cast<std::size_t>(element.first)].dtype);
  return bytes;
}

/// Workers of 2 devices whose links send 1 B/s to 9 TB/s; every second time all send the same.
Topology random_topology(RandomCollections* random, bool alike) {
  Topology topology = Topology::uniform(static_cast<int>(random->number(3, 6)), 2);
  if (alike) return topology;
  std::vector<Worker> workers = topology.workers();
  for (Worker& worker : workers) {
    worker.out_bytes_per_second = random->number(1, 9);
    for (std::int64_t zeros = random->number(0, 12); zeros > 0; --zeros) worker.out_bytes_per_second *= 10;
  }
  return Topology(std::move(workers));
}

class BruteForce : public testing::TestWithParam<std::uint32_t> {};

TEST_P(BruteForce, PlanGivesTheTargetWithTheLeastBytes) {
  RandomCollections random(GetParam());
  for (int round = 0; round < 20; ++round) {
    const auto infos = random.tensors();
    const auto source_devices = static_cast<int>(random.number(1, 6));
    const auto target_devices = static_cast<int>(random.number(1, 6));
    const ListedCollection source = random.collection(infos, source_devices);
    const ListedCollection target = random.collection(infos, target_devices);
    const Topology topology = random_topology(&random, round % 2 == 0);
    PlanInput input{&source, &target, &topology, Placement::rank_order(source_devices, target_devices)};
    input.slice_bytes = random.number(1, 64);
    for (int& slot : input.placement.target_slots) slot = (slot + round) % topology.slot_count();
    const auto plan = make_plan(input);
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    EXPECT_EQ(run(*plan, input), full_memory(target));
    for (const WorkerPart& part : plan->parts) {
      const std::int64_t bytes = missing_bytes(input, part.worker);
      EXPECT_EQ(part.bytes_in, bytes);
      EXPECT_EQ(part.bytes_in_bound, bytes);
      const auto alone = plan_for_worker(input, part.worker);
      ASSERT_TRUE(alone.has_value()) << alone.error().to_string();
      EXPECT_EQ(encode(alone->part), encode(part));
      EXPECT_EQ(alone->part, part);
      EXPECT_EQ(alone->groups, plan->groups);
    }
    const auto proof = check(*plan, input);
    EXPECT_TRUE(proof.has_value()) << proof.error().to_string();
    const auto explicit_proof = check(plan->to_explicit(), input);
    EXPECT_TRUE(explicit_proof.has_value()) << explicit_proof.error().to_string();
    EXPECT_EQ(make_plan(input)->hash(), plan->hash());
  }
}

TEST_P(BruteForce, BaselinesGiveTheTargetToo) {
  RandomCollections random(GetParam() + 1000);
  for (const Baseline baseline : {Baseline::kCentral, Baseline::kFull}) {
    const auto infos = random.tensors();
    const ListedCollection source = random.collection(infos, 4);
    const ListedCollection target = random.collection(infos, 5);
    const Topology topology = Topology::uniform(3, 2);
    PlanInput input{&source, &target, &topology, Placement::rank_order(4, 5), baseline, WorkerId(1)};
    const auto plan = make_plan(input);
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    EXPECT_EQ(run(*plan, input), full_memory(target));
    const auto proof = check(*plan, input);
    EXPECT_TRUE(proof.has_value()) << to_string(baseline) << ": " << proof.error().to_string();
    for (const WorkerPart& part : plan->parts) {
      EXPECT_EQ(part.bytes_in_bound, missing_bytes(input, part.worker));
      EXPECT_EQ(encode(plan_for_worker(input, part.worker)->part), encode(part));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BruteForce, testing::Range(0U, 40U));

}  // namespace
}  // namespace tenplex
