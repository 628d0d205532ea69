// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// GptCollection: a GPT with Adam under (tensor, pipeline, data) parallelism and ZeRO-1, by arithmetic; for benchmarks.
//
//   rank = tp + tp_size · (dp + dp_size · pp)
//   weights: bfloat16, cut over tp or replicated, held by every dp rank
//   master, exp_avg, exp_avg_sq: float32, the tp part flattened and cut over dp
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenplex/ptc/collection.h"

namespace tenplex {

struct GptShape {
  std::int64_t layers = 128;
  std::int64_t hidden = 25600;
  std::int64_t vocabulary = 51200;
};

/// Groups of `tp` consecutive ranks, for PlacementRequest::tp_groups. Requires: tp divides devices.
inline std::vector<std::vector<DeviceId>> consecutive_groups(int devices, int tp) {
  std::vector<std::vector<DeviceId>> groups(static_cast<std::size_t>(devices / tp));
  for (int rank = 0; rank < devices; ++rank) groups[static_cast<std::size_t>(rank / tp)].push_back(DeviceId(rank));
  return groups;
}

class GptCollection final : public Collection {
 public:
  GptCollection(const GptShape& shape, int tp, int pp, int dp) : shape_(shape), tp_(tp), pp_(pp), dp_(dp) {
    const std::int64_t h = shape.hidden;
    add("embedding", {shape.vocabulary, h}, 0, 0, 0);
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      const auto stage = static_cast<int>(layer * pp / shape.layers);
      std::uint64_t kind = 2;
      for (const Kind& each :
           {Kind{"ln1.weight", {h}, -1}, Kind{"ln1.bias", {h}, -1}, Kind{"qkv.weight", {3 * h, h}, 0},
            Kind{"qkv.bias", {3 * h}, 0}, Kind{"proj.weight", {h, h}, 1}, Kind{"proj.bias", {h}, -1},
            Kind{"ln2.weight", {h}, -1}, Kind{"ln2.bias", {h}, -1}, Kind{"fc1.weight", {4 * h, h}, 0},
            Kind{"fc1.bias", {4 * h}, 0}, Kind{"fc2.weight", {h, 4 * h}, 1}, Kind{"fc2.bias", {h}, -1}})
        add(prefix + each.name, each.shape, each.dim, stage, kind++);
    }
    add("head", {shape.vocabulary, h}, 0, pp - 1, 1);
    for (std::size_t index = 0; index < infos_.size(); ++index)
      by_name_.emplace(infos_[index].name, static_cast<std::int32_t>(index));
  }

  int device_count() const override { return tp_ * pp_ * dp_; }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  std::span<const ObjectInfo> objects() const override { return {}; }
  std::int64_t shard_count(TensorId tensor) const override {
    const Cut& cut = cuts_[tensor.index()];
    return std::int64_t{cut.dim >= 0 ? tp_ : 1} * (cut.flat ? dp_ : 1);
  }
  void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const override {
    const Cut& cut = cuts_[tensor.index()];
    Box box = Box::whole(infos_[tensor.index()].shape);
    const std::int64_t part = cut.flat ? index / dp_ : index;
    if (cut.dim >= 0) {
      box.extent[cut.dim] /= tp_;
      box.offset[cut.dim] = part * box.extent[cut.dim];
    }
    if (!cut.flat) {
      *shard = sub_tensor_of_box(box);
      return;
    }
    const std::int64_t total = volume(box);
    const std::int64_t begin = total * (index % dp_) / dp_;
    const std::int64_t end = total * (index % dp_ + 1) / dp_;
    shard->local_shape = {end - begin};
    shard->pieces.clear();
    std::int64_t offset = 0;
    for (Box piece : boxes_of_flat_range(box.extent, begin, end)) {
      if (cut.dim >= 0) piece.offset[cut.dim] += box.offset[cut.dim];
      shard->pieces.push_back({piece, offset, row_major_strides(piece.extent)});
      offset += volume(piece);
    }
  }
  void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const override {
    const Cut& cut = cuts_[tensor.index()];
    devices->clear();
    const auto part = static_cast<int>(cut.flat ? index / dp_ : index);
    for (int dp = 0; dp < dp_; ++dp) {
      if (cut.flat && dp != index % dp_) continue;
      for (int tp = 0; tp < tp_; ++tp)
        if (cut.dim < 0 || tp == part) devices->push_back(DeviceId(tp + tp_ * (dp + dp_ * cut.stage)));
    }
  }
  void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const override {
    const Cut& cut = cuts_[tensor.index()];
    shards->clear();
    const int tp = device.value() % tp_;
    const int dp = device.value() / tp_ % dp_;
    if (device.value() / tp_ / dp_ != cut.stage) return;
    const int part = cut.dim >= 0 ? tp : 0;
    shards->push_back(cut.flat ? std::int64_t{part} * dp_ + dp : part);
  }
  std::uint64_t geometry_key(TensorId tensor) const override {
    const Cut& cut = cuts_[tensor.index()];
    return (static_cast<std::uint64_t>(cut.stage) * 64 + cut.kind) * 2 + (cut.flat ? 1 : 0);
  }
  Hash128 hash() const override {
    Hasher hasher;
    for (const std::int64_t value :
         {shape_.layers, shape_.hidden, shape_.vocabulary, std::int64_t{tp_}, std::int64_t{pp_}, std::int64_t{dp_}})
      hasher.add(value);
    return hasher.finish();
  }
  std::optional<TensorId> find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    return TensorId(found->second);
  }
  std::int64_t total_bytes() const {
    std::int64_t bytes = 0;
    for (const TensorInfo& info : infos_) bytes += size_bytes(info);
    return bytes;
  }

 private:
  struct Kind {
    const char* name;
    Dims shape;
    int dim;
  };
  struct Cut {
    int dim;
    int stage;
    bool flat;
    std::uint64_t kind;
  };

  void add(const std::string& name, const Dims& shape, int dim, int stage, std::uint64_t kind) {
    infos_.push_back({name, DType::kBFloat16, shape});
    cuts_.push_back({dim, stage, false, kind});
    for (const char* slot : {".master", ".exp_avg", ".exp_avg_sq"}) {
      infos_.push_back({name + slot, DType::kFloat32, shape});
      cuts_.push_back({dim, stage, true, kind});
    }
  }

  GptShape shape_;
  int tp_;
  int pp_;
  int dp_;
  std::vector<TensorInfo> infos_;
  std::vector<Cut> cuts_;
  std::unordered_map<std::string_view, std::int32_t> by_name_;
};

}  // namespace tenplex
