// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Random small collections for property tests: grids, single cuts, flat ranges, overlapping boxes, replicas, empty
// shards, padding. Every element of every tensor is held by somebody.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {

class RandomCollections {
 public:
  explicit RandomCollections(std::uint32_t seed) : random_(seed) {}

  /// In [low, high]. The same on every platform.
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  std::vector<TensorInfo> tensors() {
    std::vector<TensorInfo> infos;
    const std::int64_t count = number(1, 4);
    for (std::int64_t tensor = 0; tensor < count; ++tensor) {
      Dims shape;
      const std::int64_t rank = number(0, 3);
      for (std::int64_t dim = 0; dim < rank; ++dim) shape.push_back(number(0, 7) == 0 ? 0 : number(1, 6));
      constexpr DType kTypes[] = {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kComplex128};
      infos.push_back({fmt::format("t{}", tensor), kTypes[number(0, 3)], shape});
    }
    return infos;
  }

  ListedCollection collection(const std::vector<TensorInfo>& infos, int devices) {
    std::vector<ListedTensor> listed;
    listed.reserve(infos.size());
    for (const TensorInfo& info : infos) listed.push_back(tensor(info, devices));
    return {devices, std::move(listed)};
  }

 private:
  ListedTensor tensor(const TensorInfo& info, int devices) {
    ListedTensor tensor{info, {}, 0};
    for (const std::vector<Box>& boxes : cut(info.shape)) add(shard_of(boxes), holders(devices), &tensor);
    return tensor;
  }

  /// A list of boxes per shard.
  std::vector<std::vector<Box>> cut(const Dims& shape) {
    std::vector<std::vector<Box>> shards;
    const std::int64_t kind = number(0, 3);
    if (kind == 0 || shape.empty()) {
      shards.push_back({Box::whole(shape)});
    } else if (kind == 1) {
      const std::int64_t parts = number(1, 4);
      for (std::int64_t part = 0; part < parts; ++part)
        shards.push_back(boxes_of_flat_range(shape, volume(shape) * part / parts, volume(shape) * (part + 1) / parts));
    } else {
      for (const Box& box : halve(Box::whole(shape), 3)) shards.push_back({box});
      for (std::int64_t extra = kind == 3 ? number(1, 3) : 0; extra > 0; --extra) shards.push_back({inside(shape)});
    }
    return shards;
  }

  std::vector<Box> halve(const Box& box, int depth) {
    if (depth == 0 || number(0, 3) == 0) return {box};
    const auto dim = static_cast<int>(number(0, box.rank() - 1));
    const std::int64_t at = number(0, box.extent[dim]);  // 0 and all give an empty shard
    Box low = box;
    Box high = box;
    low.extent[dim] = at;
    high.offset[dim] += at;
    high.extent[dim] -= at;
    std::vector<Box> boxes = halve(low, depth - 1);
    const std::vector<Box> more = halve(high, depth - 1);
    boxes.insert(boxes.end(), more.begin(), more.end());
    return boxes;
  }

  Box inside(const Dims& shape) {
    Box box = Box::whole(shape);
    for (int dim = 0; dim < shape.rank(); ++dim) {
      box.offset[dim] = number(0, shape[dim]);
      box.extent[dim] = number(0, shape[dim] - box.offset[dim]);
    }
    return box;
  }

  /// Boxes one after another in a local array, with some padding before each.
  SubTensor shard_of(const std::vector<Box>& boxes) {
    if (boxes.size() == 1 && number(0, 1) == 0) return sub_tensor_of_box(boxes[0]);
    SubTensor shard;
    std::int64_t length = 0;
    for (const Box& box : boxes) {
      if (box.empty()) continue;
      length += number(0, 2);
      shard.pieces.push_back({box, length, row_major_strides(box.extent)});
      length += volume(box);
    }
    shard.local_shape = {length};
    return shard;
  }

  std::vector<DeviceId> holders(int devices) {
    std::vector<DeviceId> list;
    for (std::int64_t count = number(1, 3); count > 0; --count)
      list.push_back(DeviceId(static_cast<std::int32_t>(number(0, devices - 1))));
    return unique(std::move(list));
  }

  static std::vector<DeviceId> unique(std::vector<DeviceId> list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

  /// Equal shards are one shard with more holders.
  static void add(const SubTensor& shard, const std::vector<DeviceId>& holders, ListedTensor* tensor) {
    for (ListedShard& known : tensor->shards)
      if (known.sub_tensor == shard) {
        known.holders.insert(known.holders.end(), holders.begin(), holders.end());
        known.holders = unique(known.holders);
        return;
      }
    tensor->shards.push_back({shard, holders});
  }

  std::mt19937 random_;
};

}  // namespace tenplex
