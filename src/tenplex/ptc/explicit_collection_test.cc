// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/explicit_collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shard_text(const Collection& collection, int tensor, std::int64_t index) {
  SubTensor shard;
  collection.shard(TensorId(tensor), index, &shard);
  return to_string(shard);
}

std::vector<int> holders(const Collection& collection, int tensor, std::int64_t index) {
  std::vector<DeviceId> devices;
  collection.holders(TensorId(tensor), index, &devices);
  std::vector<int> numbers;
  for (const DeviceId device : devices) numbers.push_back(device.value());
  return numbers;
}

std::vector<std::int64_t> shards_of(const Collection& collection, int tensor, int device) {
  std::vector<std::int64_t> shards;
  collection.shards_of_device(TensorId(tensor), DeviceId(device), &shards);
  return shards;
}

ExplicitCollectionBuilder two_tensors() {
  return {{{"a", DType::kFloat32, {4, 2}}, {"s", DType::kInt64, {}}}, 3, {{"rng", DeviceId(1)}}};
}

TEST(ExplicitCollection, MakesOneShardOfEqualOnesOnSeveralDevices) {
  auto builder = two_tensors();
  ASSERT_TRUE(builder.add_box(DeviceId(2), TensorId(0), {{2, 0}, {2, 2}}));
  ASSERT_TRUE(builder.add_box(DeviceId(1), TensorId(0), {{0, 0}, {2, 2}}));
  ASSERT_TRUE(builder.add(DeviceId(0), TensorId(1), whole_tensor({})));
  ASSERT_TRUE(builder.add(DeviceId(0), TensorId(0), sub_tensor_of_box({{0, 0}, {2, 2}})));
  std::vector<std::int64_t> shard_of_added;
  const auto collection = std::move(builder).finish(&shard_of_added).value();
  EXPECT_EQ(collection->shard_count(TensorId(0)), 2);
  EXPECT_EQ(shard_text(*collection, 0, 0), "[2, 2] | [0:2, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(shard_text(*collection, 0, 1), "[2, 2] | [2:4, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(shard_text(*collection, 1, 0), "[] | [] at 0 step []");
  EXPECT_THAT(holders(*collection, 0, 0), ElementsAre(0, 1));
  EXPECT_THAT(holders(*collection, 0, 1), ElementsAre(2));
  EXPECT_THAT(shards_of(*collection, 0, 2), ElementsAre(1));
  EXPECT_THAT(shards_of(*collection, 1, 2), ElementsAre());
  EXPECT_THAT(shard_of_added, ElementsAre(1, 0, 0, 0));
  EXPECT_EQ(collection->find("s"), TensorId(1));
  EXPECT_EQ(collection->find("t"), std::nullopt);
  EXPECT_EQ(collection->objects()[0], (ObjectInfo{"rng", DeviceId(1)}));
}

TEST(ExplicitCollection, KeepsStridesPaddingAndSeveralPieces) {
  ExplicitCollectionBuilder builder({{"a", DType::kFloat32, {4, 2}}}, 1, {});
  // A local array of 10: rows 0..1 column-major from 1 on, then row 3, the rest padding.
  const SubTensor shard{{10}, {{{{0, 0}, {2, 2}}, 1, {1, 2}}, {{{3, 0}, {1, 2}}, 5, {2, 1}}}};
  ASSERT_TRUE(builder.add(DeviceId(0), TensorId(0), shard));
  ASSERT_TRUE(builder.add_box(DeviceId(0), TensorId(0), {{2, 0}, {0, 2}}));
  const auto collection = std::move(builder).finish().value();
  ASSERT_EQ(collection->shard_count(TensorId(0)), 2);
  EXPECT_EQ(shard_text(*collection, 0, 1), "[0, 2]");
  EXPECT_EQ(shard_text(*collection, 0, 0), "[10] | [0:2, 0:2] at 1 step [1, 2] | [3:4, 0:2] at 5 step [2, 1]");
  EXPECT_THAT(shards_of(*collection, 0, 0), ElementsAre(0, 1));
}

TEST(ExplicitCollection, AllowsOverlapOfShardsButNotOfPieces) {
  ExplicitCollectionBuilder builder({{"a", DType::kFloat32, {4, 4}}}, 2, {});
  EXPECT_TRUE(builder.add_box(DeviceId(0), TensorId(0), {{0, 0}, {3, 4}}));
  EXPECT_TRUE(builder.add_box(DeviceId(1), TensorId(0), {{1, 0}, {3, 4}}));
  const SubTensor overlapping{{32}, {{{{0, 0}, {2, 4}}, 0, {4, 1}}, {{{1, 3}, {2, 1}}, 8, {4, 1}}}};
  EXPECT_THAT(builder.add(DeviceId(0), TensorId(0), overlapping).error().to_string(),
              HasSubstr("tensor 'a': pieces [0:2, 0:4] and [1:3, 3:4] overlap"));
}

TEST(ExplicitCollection, RefusesWhatLiesOutside) {
  ExplicitCollectionBuilder builder({{"a", DType::kFloat32, {4, 4}}}, 2, {});
  EXPECT_EQ(builder.add_box(DeviceId(0), TensorId(1), {}).error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(builder.add_box(DeviceId(2), TensorId(0), {{0, 0}, {4, 4}}).error().code(), ErrorCode::kOutOfRange);
  EXPECT_FALSE(builder.add_box(DeviceId(0), TensorId(0), {{0}, {4}}));
  EXPECT_FALSE(builder.add_box(DeviceId(0), TensorId(0), {{0, 1}, {4, 4}}));
  EXPECT_FALSE(builder.add_box(DeviceId(0), TensorId(0), {{-1, 0}, {4, 4}}));
  EXPECT_FALSE(builder.add_box(DeviceId(0), TensorId(0), {{INT64_MAX, 0}, {1, 4}}));
  EXPECT_FALSE(builder.add(DeviceId(0), TensorId(0), {{15}, {{{{0, 0}, {4, 4}}, 0, {4, 1}}}}));
  EXPECT_FALSE(builder.add(DeviceId(0), TensorId(0), {{16}, {{{{0, 0}, {4, 4}}, -1, {4, 1}}}}));
  EXPECT_FALSE(builder.add(DeviceId(0), TensorId(0), {{16}, {{{{0, 0}, {4, 4}}, 0, {-4, 1}}}}));
  EXPECT_FALSE(builder.add(DeviceId(0), TensorId(0), {{16}, {{{{0, 0}, {4, 4}}, 0, {INT64_MAX, 1}}}}));
  EXPECT_FALSE(builder.add(DeviceId(0), TensorId(0), {{INT64_MAX, 2}, {{{{0, 0}, {4, 4}}, 0, {4, 1}}}}));
  EXPECT_EQ(builder.size(), 0U);
}

TEST(ExplicitCollection, RefusesTwoTensorsOfOneName) {
  ExplicitCollectionBuilder builder({{"a", DType::kFloat32, {}}, {"a", DType::kInt8, {}}}, 1, {});
  EXPECT_EQ(std::move(builder).finish().error().message(), "two tensors have the name 'a'");
}

std::unique_ptr<ExplicitCollection> rows(int split, std::string name, std::vector<int> order, int owner = 0) {
  ExplicitCollectionBuilder builder({{std::move(name), DType::kFloat32, {4}}}, 2, {{"rng", DeviceId(owner)}});
  for (const int device : order) {
    const std::int64_t begin = device == 0 ? 0 : split;
    EXPECT_TRUE(builder.add_box(DeviceId(device), TensorId(0), {{begin}, {device == 0 ? split : 4 - split}}));
  }
  return std::move(builder).finish().value();
}

TEST(ExplicitCollection, HashFollowsContentsAndNotTheOrderOfAdding) {
  const Hash128 hash = rows(2, "a", {0, 1})->hash();
  EXPECT_EQ(hash, rows(2, "a", {1, 0})->hash());
  EXPECT_EQ(hash, rows(2, "a", {1, 0, 1})->hash());
  EXPECT_NE(hash, rows(3, "a", {0, 1})->hash());
  EXPECT_NE(hash, rows(2, "b", {0, 1})->hash());
  EXPECT_NE(hash, rows(2, "a", {0})->hash());
  EXPECT_NE(hash, rows(2, "a", {0, 1}, 1)->hash());
}

TEST(ExplicitCollection, GivesOneGeometryKeyToTensorsThatAreStoredAlike) {
  std::vector<TensorInfo> tensors;
  for (const char* name : {"a", "b", "c", "d"}) tensors.push_back({name, DType::kFloat32, {4}});
  ExplicitCollectionBuilder builder(tensors, 2, {});
  for (const int tensor : {0, 1, 2}) {
    ASSERT_TRUE(builder.add_box(DeviceId(0), TensorId(tensor), {{0}, {2}}));
    ASSERT_TRUE(builder.add_box(DeviceId(tensor == 2 ? 0 : 1), TensorId(tensor), {{2}, {2}}));
  }
  const auto collection = std::move(builder).finish().value();
  EXPECT_EQ(collection->geometry_key(TensorId(0)), collection->geometry_key(TensorId(1)));
  EXPECT_NE(collection->geometry_key(TensorId(0)), collection->geometry_key(TensorId(2)));
  EXPECT_EQ(collection->shard_count(TensorId(3)), 0);
}

TEST(ExplicitCollection, CostsAtMostAHundredBytesPerShard) {
  constexpr std::int64_t kShards = 100'000;
  ExplicitCollectionBuilder builder({{"a", DType::kFloat32, {kShards, 8, 2}}}, 64, {});
  for (std::int64_t row = kShards; row-- > 0;)
    ASSERT_TRUE(builder.add_box(DeviceId(static_cast<std::int32_t>(row % 64)), TensorId(0), {{row, 0, 0}, {1, 8, 2}}));
  const auto collection = std::move(builder).finish().value();
  EXPECT_EQ(collection->shard_count(TensorId(0)), kShards);
  EXPECT_LE(collection->memory_bytes(), kShards * 100);
  EXPECT_EQ(shard_text(*collection, 0, 77), "[1, 8, 2] | [77:78, 0:8, 0:2] at 0 step [16, 2, 1]");
  EXPECT_EQ(shards_of(*collection, 0, 5).size(), 1563U);  // rows 5, 69, …, 99973
}

}  // namespace
}  // namespace tenplex
