// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/explicit_collection.h"

#include <algorithm>
#include <map>

#include "tenplex/ptc/shard_words.h"

namespace tenplex {
namespace {

template <typename T>
std::int64_t allocated(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.capacity() * sizeof(T));
}

}  // namespace

std::int64_t ExplicitCollection::shard_count(TensorId tensor) const {
  return static_cast<std::int64_t>(first_shard_[tensor.index() + 1] - first_shard_[tensor.index()]);
}

std::span<const std::int64_t> ExplicitCollection::words(std::uint64_t global_shard) const {
  const std::uint64_t begin = word_begin_[global_shard];
  return std::span(words_).subspan(begin, word_begin_[global_shard + 1] - begin);
}

void ExplicitCollection::shard(TensorId tensor, std::int64_t index, SubTensor* shard) const {
  TENPLEX_CHECK(index >= 0 && index < shard_count(tensor));
  const auto rank = tensors_[tensor.index()].shape.rank();
  read_shard_words(rank, words(first_shard_[tensor.index()] + static_cast<std::uint64_t>(index)), shard);
}

void ExplicitCollection::holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const {
  TENPLEX_CHECK(index >= 0 && index < shard_count(tensor));
  const std::uint64_t shard = first_shard_[tensor.index()] + static_cast<std::uint64_t>(index);
  devices->clear();
  for (std::uint32_t at = holder_begin_[shard]; at < holder_begin_[shard + 1]; ++at)
    devices->emplace_back(holders_[at]);
}

void ExplicitCollection::shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const {
  shards->clear();
  const auto begin = holdings_.begin() + holder_begin_[first_shard_[tensor.index()]];
  const auto end = holdings_.begin() + holder_begin_[first_shard_[tensor.index() + 1]];
  auto at = std::lower_bound(begin, end, device.value(),
                             [](const Holding& holding, std::int32_t value) { return holding.device < value; });
  for (; at != end && at->device == device.value(); ++at) shards->push_back(at->shard);
}

std::int64_t ExplicitCollection::memory_bytes() const {
  return allocated(first_shard_) + allocated(words_) + allocated(word_begin_) + allocated(holder_begin_) +
         allocated(holders_) + allocated(holdings_) + allocated(geometry_);
}

void ExplicitCollection::index_holdings() {
  holdings_.resize(holders_.size());
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const std::uint64_t first = first_shard_[tensor];
    for (std::uint64_t shard = first; shard < first_shard_[tensor + 1]; ++shard)
      for (std::uint32_t at = holder_begin_[shard]; at < holder_begin_[shard + 1]; ++at)
        holdings_[at] = {holders_[at], static_cast<std::uint32_t>(shard - first)};
    std::sort(holdings_.begin() + holder_begin_[first], holdings_.begin() + holder_begin_[first_shard_[tensor + 1]],
              [](const Holding& a, const Holding& b) {
                return a.device != b.device ? a.device < b.device : a.shard < b.shard;
              });
  }
}

Hash128 ExplicitCollection::geometry_hash(std::size_t tensor) const {
  Hasher hasher;
  const std::uint64_t first = first_shard_[tensor];
  const std::uint64_t end = first_shard_[tensor + 1];
  hasher.add(tensors_[tensor].shape.rank());
  hasher.add(static_cast<std::int64_t>(end - first));
  for (std::uint64_t shard = first; shard < end; ++shard) {
    hasher.add(static_cast<std::int64_t>(word_begin_[shard + 1] - word_begin_[shard]));
    hasher.add(static_cast<std::int64_t>(holder_begin_[shard + 1] - holder_begin_[shard]));
  }
  for (std::uint64_t word = word_begin_[first]; word < word_begin_[end]; ++word) hasher.add(words_[word]);
  for (std::uint32_t at = holder_begin_[first]; at < holder_begin_[end]; ++at) hasher.add(holders_[at]);
  return hasher.finish();
}

bool ExplicitCollection::same_geometry(std::size_t a, std::size_t b) const {
  const std::uint64_t first_a = first_shard_[a];
  const std::uint64_t first_b = first_shard_[b];
  const std::uint64_t count = first_shard_[a + 1] - first_a;
  if (tensors_[a].shape.rank() != tensors_[b].shape.rank() || count != first_shard_[b + 1] - first_b) return false;
  for (std::uint64_t shard = 0; shard < count; ++shard) {
    const auto words_a = words(first_a + shard);
    const auto words_b = words(first_b + shard);
    if (!std::equal(words_a.begin(), words_a.end(), words_b.begin(), words_b.end())) return false;
    const auto holders_at = [this](std::uint64_t index) {
      return std::span(holders_).subspan(holder_begin_[index], holder_begin_[index + 1] - holder_begin_[index]);
    };
    const auto holders_a = holders_at(first_a + shard);
    const auto holders_b = holders_at(first_b + shard);
    if (!std::equal(holders_a.begin(), holders_a.end(), holders_b.begin(), holders_b.end())) return false;
  }
  return true;
}

std::vector<Hash128> ExplicitCollection::find_equal_geometries() {
  std::multimap<Hash128, std::size_t> known;
  std::vector<Hash128> hashes;
  geometry_.resize(tensors_.size());
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const Hash128 hash = hashes.emplace_back(geometry_hash(tensor));
    geometry_[tensor] = tensor;
    const auto [begin, end] = known.equal_range(hash);
    const auto same = std::find_if(begin, end, [&](const auto& entry) { return same_geometry(entry.second, tensor); });
    if (same != end) {
      geometry_[tensor] = same->second;
    } else {
      known.emplace(hash, tensor);
    }
  }
  return hashes;
}

void ExplicitCollection::compute_hash(std::span<const Hash128> geometries) {
  Hasher hasher;
  hasher.add("explicit collection");
  hasher.add(device_count_);
  hasher.add(static_cast<std::int64_t>(tensors_.size()));
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    hasher.add(tensors_[tensor].name);
    hasher.add(to_string(tensors_[tensor].dtype));
    hasher.add(to_string(tensors_[tensor].shape));
    hasher.add(static_cast<std::int64_t>(geometries[tensor].high));
    hasher.add(static_cast<std::int64_t>(geometries[tensor].low));
  }
  hasher.add(static_cast<std::int64_t>(objects_.size()));
  for (const ObjectInfo& object : objects_) {
    hasher.add(object.name);
    hasher.add(object.owner.value());
  }
  hash_ = hasher.finish();
}

}  // namespace tenplex
