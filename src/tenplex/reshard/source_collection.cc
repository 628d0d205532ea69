// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/source_collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tenplex/formats/chunk_check.h"

namespace tenplex {
namespace {

void add_dims(Hasher& hasher, const Dims& dims) {
  hasher.add(dims.rank());
  for (const std::int64_t value : dims) hasher.add(value);
}

}  // namespace

Result<std::unique_ptr<SourceCollection>> SourceCollection::build(const CheckpointInfo& info) {
  std::unique_ptr<SourceCollection> collection(new SourceCollection(info));
  if (info.chunks.size() >= std::numeric_limits<std::uint32_t>::max()) {
    return unsupported(fmt::format("a checkpoint of {} chunks", info.chunks.size()));
  }
  TENPLEX_TRY(check_chunks(info));
  collection->names_ = NameIndex(info.tensors);
  if (const std::optional<TensorId> repeated = collection->names_.repeated())
    return corrupt(fmt::format("tensor '{}' is there twice", info.tensors[repeated->index()].name));
  collection->group_by_tensor();
  return collection;
}

void SourceCollection::group_by_tensor() {
  const std::size_t tensors = info_.tensors.size();
  std::vector<std::uint32_t> begin(tensors + 1, 0);
  device_count_ = std::max(1, info_.device_count);
  for (std::size_t i = 0; i < info_.chunks.size(); ++i) {
    const Chunk chunk = info_.chunks[i];
    ++begin[chunk.tensor.index() + 1];
    device_count_ = std::max(device_count_, chunk.device.value() + 1);
  }
  for (std::size_t t = 0; t < tensors; ++t) begin[t + 1] += begin[t];
  order_.resize(info_.chunks.size());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::uint32_t i = 0; i < info_.chunks.size(); ++i) order_[next[info_.chunks[i].tensor.index()]++] = i;

  tensor_begin_ = std::move(begin);
  shard_begin_.reserve(order_.size() + 1);
  for (std::size_t t = 0; t < tensors; ++t) sort_tensor(t);
  shard_begin_.push_back(static_cast<std::uint32_t>(order_.size()));
  tensor_begin_[tensors] = static_cast<std::uint32_t>(shard_begin_.size() - 1);
}

// Sorts the chunks of one tensor and turns its tensor_begin_ from an index of chunks into one of shards.
void SourceCollection::sort_tensor(std::size_t tensor) {
  const std::uint32_t begin = tensor_begin_[tensor];
  const std::uint32_t end = tensor_begin_[tensor + 1];
  tensor_begin_[tensor] = static_cast<std::uint32_t>(shard_begin_.size());
  std::vector<std::pair<Box, std::uint32_t>> chunks;
  chunks.reserve(end - begin);
  for (std::uint32_t i = begin; i < end; ++i) chunks.emplace_back(info_.chunks[order_[i]].box, order_[i]);
  std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) {
    if (!(a.first.offset == b.first.offset)) return a.first.offset < b.first.offset;
    if (!(a.first.extent == b.first.extent)) return a.first.extent < b.first.extent;
    return a.second < b.second;
  });
  for (std::uint32_t i = 0; i < end - begin; ++i) {
    order_[begin + i] = chunks[i].second;
    if (i == 0 || !(chunks[i].first == chunks[i - 1].first)) shard_begin_.push_back(begin + i);
  }
}

std::int64_t SourceCollection::shard_count(TensorId tensor) const {
  return std::int64_t{tensor_begin_[tensor.index() + 1]} - tensor_begin_[tensor.index()];
}

std::span<const std::uint32_t> SourceCollection::copies(TensorId tensor, std::int64_t index) const {
  const std::size_t shard = tensor_begin_[tensor.index()] + static_cast<std::size_t>(index);
  return std::span(order_).subspan(shard_begin_[shard], shard_begin_[shard + 1] - shard_begin_[shard]);
}

void SourceCollection::shard(TensorId tensor, std::int64_t index, SubTensor* shard) const {
  const Box whole = box(tensor, index);
  shard->local_shape = whole.extent;
  shard->pieces.resize(1);
  shard->pieces.front() = {whole, 0, row_major_strides(whole.extent)};
}

void SourceCollection::holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const {
  devices->clear();
  for (const std::uint32_t chunk : copies(tensor, index)) devices->push_back(info_.chunks[chunk].device);
  std::sort(devices->begin(), devices->end());
  devices->erase(std::unique(devices->begin(), devices->end()), devices->end());
}

void SourceCollection::shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const {
  shards->clear();
  for (std::int64_t index = 0; index < shard_count(tensor); ++index) {
    const auto all = copies(tensor, index);
    if (std::any_of(all.begin(), all.end(), [&](std::uint32_t chunk) { return info_.chunks[chunk].device == device; }))
      shards->push_back(index);
  }
}

std::uint64_t SourceCollection::geometry_key(TensorId tensor) const {
  Hasher hasher;
  std::vector<DeviceId> devices;
  for (std::int64_t index = 0; index < shard_count(tensor); ++index) {
    const Box whole = box(tensor, index);
    add_dims(hasher, whole.offset);
    add_dims(hasher, whole.extent);
    holders(tensor, index, &devices);
    hasher.add(static_cast<std::int64_t>(devices.size()));
    for (const DeviceId device : devices) hasher.add(device.value());
  }
  return hasher.finish().low;
}

Hash128 SourceCollection::hash() const {
  Hasher hasher;
  for (std::size_t t = 0; t < info_.tensors.size(); ++t) {
    const TensorInfo& tensor = info_.tensors[t];
    hasher.add(tensor.name);
    hasher.add(static_cast<std::int64_t>(tensor.dtype));
    add_dims(hasher, tensor.shape);
    hasher.add(static_cast<std::int64_t>(geometry_key(TensorId(t))));
  }
  return hasher.finish();
}

bool SourceCollection::has_overlaps(TensorId tensor) const {
  // Chunks lie inside the tensor, so disjoint ones cannot hold more elements than it has.
  std::int64_t left = volume(info_.tensors[tensor.index()].shape);
  for (std::int64_t index = 0; index < shard_count(tensor); ++index) {
    left -= volume(box(tensor, index));
    if (left < 0) return true;
  }
  return false;
}

}  // namespace tenplex
