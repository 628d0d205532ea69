// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/shard_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {
namespace {

Hash128 hash_of(std::span<const std::int64_t> words) {
  Hasher hasher;
  hasher.add_raw(std::as_bytes(words));
  return hasher.finish();
}

/// The same words for equal sub-tensors only: every list is preceded by its length.
void append_words(const SubTensor& shard, std::vector<std::int64_t>* words) {
  const auto append = [words](const Dims& dims) {
    words->push_back(dims.rank());
    words->insert(words->end(), dims.begin(), dims.end());
  };
  append(shard.local_shape);
  words->push_back(static_cast<std::int64_t>(shard.pieces.size()));
  for (const Piece& piece : shard.pieces) {
    append(piece.box.offset);
    append(piece.box.extent);
    words->push_back(piece.local_offset);
    append(piece.local_strides);
  }
}

}  // namespace

Result<ShardList> ShardList::read(const Collection& collection, TensorId tensor) {
  const TensorInfo& info = collection.tensors()[tensor.index()];
  const Box whole = Box::whole(info.shape);
  ShardList list(info.shape.rank());
  SubTensor shard;
  for (std::int64_t number = 0; number < collection.shard_count(tensor); ++number) {
    collection.shard(tensor, number, &shard);
    for (const Piece& piece : shard.pieces)
      if (piece.box.rank() != whole.rank() || piece.local_strides.rank() != whole.rank() || !contains(whole, piece.box))
        return invalid_argument(fmt::format("tensor '{}' shard {}: box {} does not lie in shape {}", info.name, number,
                                            to_string(piece.box), to_string(info.shape)));
    list.add(number, shard);
  }
  static_assert(sizeof(Hash128) == 16);
  Hasher hasher;
  hasher.add_raw(std::as_bytes(std::span(list.shard_hashes_)));
  hasher.add(list.rank_);
  list.hash_ = hasher.finish();
  return list;
}

void ShardList::add(std::int64_t number, const SubTensor& sub_tensor) {
  std::int64_t elements = 0;
  for (const Piece& piece : sub_tensor.pieces) {
    if (piece.box.empty()) continue;
    shard_.push_back(number);
    boxes_.push_back(piece.box);
    local_offset_.push_back(piece.local_offset);
    strides_.insert(strides_.end(), piece.local_strides.begin(), piece.local_strides.end());
    elements += volume(piece.box);
  }
  std::vector<std::int64_t> words;
  append_words(sub_tensor, &words);
  shard_hashes_.push_back(hash_of(words));
  elements_.push_back(elements);
  first_entry_.push_back(static_cast<std::uint32_t>(boxes_.size()));
}

void ShardList::build_index() {
  for (const Box& box : boxes_) index_.add(box);
  index_.build();
  for (std::size_t entry = 0; entry < boxes_.size() && disjoint_; ++entry)
    disjoint_ = !index_.is_shadowed(static_cast<std::uint32_t>(entry));
  for (std::size_t shard = 0; shard < shard_hashes_.size(); ++shard)
    by_hash_.emplace_back(shard_hashes_[shard], static_cast<std::int64_t>(shard));
  std::sort(by_hash_.begin(), by_hash_.end());
}

std::int64_t ShardList::find(const Hash128& shard_hash) const {
  const auto found = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(shard_hash, std::int64_t{0}));
  return found != by_hash_.end() && found->first == shard_hash ? found->second : -1;
}

std::span<const std::int64_t> ShardList::strides(std::uint32_t entry) const {
  const auto rank = static_cast<std::size_t>(rank_);
  return std::span(strides_).subspan(entry * rank, rank);
}

HolderList::HolderList(const Collection& collection, TensorId tensor, const std::vector<WorkerId>& worker_of_rank) {
  std::vector<DeviceId> devices;
  for (std::int64_t shard = 0; shard < collection.shard_count(tensor); ++shard) {
    collection.holders(tensor, shard, &devices);
    const auto begin = static_cast<std::ptrdiff_t>(holders_.size());
    for (const DeviceId device : devices) holders_.push_back({worker_of_rank[device.index()], device});
    std::sort(holders_.begin() + begin, holders_.end());
    first_.push_back(static_cast<std::uint32_t>(holders_.size()));
    for (auto holder = holders_.begin() + begin; holder != holders_.end(); ++holder)
      if (holder == holders_.begin() + begin || std::prev(holder)->worker != holder->worker)
        workers_.push_back(*holder);
    first_worker_.push_back(static_cast<std::uint32_t>(workers_.size()));
  }
}

std::span<const Holder> HolderList::holders(std::int64_t shard) const {
  const auto index = static_cast<std::size_t>(shard);
  return std::span(holders_).subspan(first_[index], first_[index + 1] - first_[index]);
}

std::span<const Holder> HolderList::workers(std::int64_t shard) const {
  const auto index = static_cast<std::size_t>(shard);
  return std::span(workers_).subspan(first_worker_[index], first_worker_[index + 1] - first_worker_[index]);
}

const Holder* HolderList::on_worker(std::int64_t shard, WorkerId worker, DeviceId preferred) const {
  const auto all = holders(shard);
  const auto exact = std::lower_bound(all.begin(), all.end(), Holder{worker, preferred});
  if (exact != all.end() && *exact == Holder{worker, preferred}) return &*exact;
  const auto first = std::lower_bound(all.begin(), all.end(), Holder{worker, DeviceId(0)});
  return first != all.end() && first->worker == worker ? &*first : nullptr;
}

std::vector<std::pair<Holder, std::int64_t>> HolderList::holdings() const {
  std::vector<std::pair<Holder, std::int64_t>> holdings;
  for (std::size_t shard = 0; shard + 1 < first_.size(); ++shard)
    for (const Holder& holder : holders(static_cast<std::int64_t>(shard)))
      holdings.emplace_back(holder, static_cast<std::int64_t>(shard));
  std::sort(holdings.begin(), holdings.end());
  return holdings;
}

}  // namespace tenplex
