// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Properties of collections over random layouts, checked element by element: the shards of a tensor are disjoint and
// cover it, every local position holds at most one element, and holders() and shards_of_device() agree.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tenplex/ptc/explicit_collection.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  const char* pick(std::initializer_list<const char*> words) {
    return words.begin()[between(0, static_cast<std::int64_t>(words.size()) - 1)];
  }

 private:
  std::mt19937 engine_;
};

struct Case {
  std::string yaml;
  MeshSizes mesh;
  std::vector<TensorInfo> tensors;
};

std::string random_dim_slice(Random* random, const char* axis, int rank) {
  const std::int64_t dim = random->between(0, rank - 1);
  std::string slice = fmt::format("{{dim: {}, by: {}, split: {}", dim, axis, random->pick({"chunk", "balanced"}));
  if (dim == 0 && random->chance(40)) {
    slice += random->chance(50) ? ", segments: [1, 1]" : ", segments: [1, 2, 1]";
    if (slice.find('2') == std::string::npos && random->chance(60))
      slice += fmt::format(", {}: {}", random->pick({"interleave", "local_interleave"}), random->between(1, 3));
  }
  return slice + "}";
}

/// Extents of dim 0 are multiples of 4, so that segments fit a first cut; a second cut has none.
Case random_case(Random* random) {
  Case made;
  for (const char* axis : {"a", "b", "c", "dp"}) made.mesh.emplace_back(axis, random->between(1, 4));
  made.mesh.emplace_back("pp", random->between(1, 3));
  made.yaml = "meshes: {m: [a, dp, b, pp, c]}\ntensors:\n";
  const int rules = static_cast<int>(random->between(1, 4));
  for (int rule = 0; rule < rules; ++rule) {
    const int rank = static_cast<int>(random->between(1, 3));
    Dims shape{4 * random->between(random->chance(10) ? 0 : 1, 3)};
    for (int dim = 1; dim < rank; ++dim) shape.push_back(random->between(1, 5));
    std::string slices;
    bool segmented = false;
    for (const char* axis : {"b", "a"}) {
      if (random->chance(40)) continue;
      std::string slice = random_dim_slice(random, axis, rank);
      // Only a first cut of dim 0 may have segments: what it leaves need not divide.
      if (segmented || (slice.find("segments") != std::string::npos && slices.find("dim: 0") != std::string::npos))
        slice = fmt::format("{{dim: 0, by: {}}}", axis);
      segmented = segmented || slice.find("segments") != std::string::npos;
      slices += (slices.empty() ? "" : ", ") + slice;
    }
    if (random->chance(40)) {
      const bool bucket = slices.empty() && random->chance(60);
      slices += fmt::format("{}{{flat: true, by: [dp, c]{}}}", slices.empty() ? "" : ", ",
                            bucket ? ", bucket: all, multiple_of: [dp, 3], align: 2"
                                   : random->pick({"", ", padded: true", ", split: balanced"}));
    }
    made.yaml += fmt::format("  - match: 'r{}.{{layer}}'\n    stage: {}\n    slice: [{}]\n", rule,
                             random->pick({"layer", "first", "last", "all", "[first, last]"}), slices);
    if (random->chance(25)) made.yaml += "    pad: {dim: 0, multiple_of: [16]}\n";
    const std::int64_t layers = random->between(1, 3);
    for (std::int64_t layer = 0; layer < layers; ++layer)
      made.tensors.push_back({fmt::format("r{}.{}", rule, layer), DType::kFloat32, shape});
  }
  return made;
}

/// Marks the shard's elements in `seen`; fails on an element or a local position that occurs twice.
void mark_elements(const Dims& shape, const SubTensor& shard, std::vector<int>* seen) {
  std::vector<int> used(static_cast<std::size_t>(volume(shard.local_shape)), 0);
  const Dims strides = row_major_strides(shape);
  for (const Piece& piece : shard.pieces) {
    ASSERT_FALSE(piece.box.empty());
    ASSERT_TRUE(contains(Box::whole(shape), piece.box));
    for (std::int64_t flat = 0; flat < volume(piece.box); ++flat) {
      std::int64_t rest = flat;
      std::int64_t element = 0;
      std::int64_t local = piece.local_offset;
      for (int dim = shape.rank() - 1; dim >= 0; --dim) {
        const std::int64_t index = rest % piece.box.extent[dim];
        rest /= piece.box.extent[dim];
        element += (piece.box.offset[dim] + index) * strides[dim];
        local += index * piece.local_strides[dim];
      }
      ASSERT_EQ((*seen)[static_cast<std::size_t>(element)]++, 0) << "element " << element;
      ASSERT_TRUE(local >= 0 && local < volume(shard.local_shape));
      ASSERT_EQ(used[static_cast<std::size_t>(local)]++, 0) << "local position " << local;
    }
  }
}

void check_tensor_of(const Collection& collection, TensorId tensor) {
  const Dims shape = collection.tensors()[tensor.index()].shape;
  std::vector<int> seen(static_cast<std::size_t>(volume(shape)), 0);
  std::vector<std::vector<std::int64_t>> held(static_cast<std::size_t>(collection.device_count()));
  SubTensor shard;
  std::vector<DeviceId> devices;
  for (std::int64_t index = 0; index < collection.shard_count(tensor); ++index) {
    collection.shard(tensor, index, &shard);
    mark_elements(shape, shard, &seen);
    collection.holders(tensor, index, &devices);
    ASSERT_FALSE(devices.empty());
    ASSERT_TRUE(std::is_sorted(devices.begin(), devices.end()));
    for (const DeviceId device : devices) held[device.index()].push_back(index);
  }
  for (const int count : seen) ASSERT_EQ(count, 1);
  std::vector<std::int64_t> shards;
  for (std::size_t device = 0; device < held.size(); ++device) {
    collection.shards_of_device(tensor, DeviceId(device), &shards);
    ASSERT_EQ(shards, held[device]) << "device " << device;
  }
}

TEST(Collections, OfRandomLayoutsCoverEveryElementOnce) {
  Random random(20240611);
  int with_pieces = 0;
  for (int round = 0; round < 400; ++round) {
    const Case one = random_case(&random);
    SCOPED_TRACE(one.yaml + to_string(one.mesh));
    const auto layout = parse_layout(one.yaml, "random");
    ASSERT_TRUE(layout) << layout.error().to_string();
    const auto made = RuleCollection::make(*layout, one.mesh, one.tensors);
    ASSERT_TRUE(made) << made.error().to_string();
    for (std::size_t tensor = 0; tensor < one.tensors.size(); ++tensor) {
      check_tensor_of(**made, TensorId(tensor));
      if (testing::Test::HasFatalFailure()) return;
    }
    const auto again = RuleCollection::make(*layout, one.mesh, one.tensors);
    EXPECT_EQ((*made)->hash(), (*again)->hash());
    ++with_pieces;
  }
  EXPECT_EQ(with_pieces, 400);
}

TEST(Collections, ListedExplicitlyHoldTheSame) {
  Random random(7);
  SubTensor shard;
  std::vector<DeviceId> devices;
  for (int round = 0; round < 100; ++round) {
    const Case one = random_case(&random);
    SCOPED_TRACE(one.yaml + to_string(one.mesh));
    const auto layout = parse_layout(one.yaml, "random").value();
    const auto rules = RuleCollection::make(layout, one.mesh, one.tensors).value();
    ExplicitCollectionBuilder builder(one.tensors, rules->device_count(), {});
    std::vector<std::pair<TensorId, std::int64_t>> added;
    for (std::size_t tensor = 0; tensor < one.tensors.size(); ++tensor)
      for (std::int64_t index = 0; index < rules->shard_count(TensorId(tensor)); ++index) {
        rules->shard(TensorId(tensor), index, &shard);
        rules->holders(TensorId(tensor), index, &devices);
        for (const DeviceId device : devices) {
          ASSERT_TRUE(builder.add(device, TensorId(tensor), shard));
          added.emplace_back(TensorId(tensor), index);
        }
      }
    std::vector<std::int64_t> shard_of_added;
    const auto listed = std::move(builder).finish(&shard_of_added).value();
    for (std::size_t index = 0; index < added.size(); ++index) {
      SubTensor expected;
      rules->shard(added[index].first, added[index].second, &expected);
      listed->shard(added[index].first, shard_of_added[index], &shard);
      ASSERT_EQ(shard, expected);
    }
    for (std::size_t a = 0; a < one.tensors.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (rules->geometry_key(TensorId(a)) == rules->geometry_key(TensorId(b))) {
          EXPECT_EQ(listed->geometry_key(TensorId(a)), listed->geometry_key(TensorId(b)));
        }
  }
}

}  // namespace
}  // namespace tenplex
