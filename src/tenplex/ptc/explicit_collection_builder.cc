// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/explicit_collection.h"
#include "tenplex/ptc/shard_words.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxComparisons = std::int64_t{1} << 26;

Result<void> check_box(const Box& box, const Dims& shape) {
  if (box.offset.rank() != shape.rank() || box.extent.rank() != shape.rank())
    return invalid_argument(
        fmt::format("box {} has another rank than the tensor's shape {}", to_string(box.extent), to_string(shape)));
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || shape[dim] < box.extent[dim] ||
        box.offset[dim] > shape[dim] - box.extent[dim])
      return out_of_range(fmt::format("box at {} of extent {} lies outside the tensor's shape {}",
                                      to_string(box.offset), to_string(box.extent), to_string(shape)));
  return {};
}

/// Does the strided view of the piece lie inside a local array of `elements`?
Result<void> check_view(const Piece& piece, std::int64_t elements) {
  const auto outside = [&] {
    return out_of_range(fmt::format("piece {} at local offset {} with strides {} lies outside the {} local elements",
                                    to_string(piece.box), piece.local_offset, to_string(piece.local_strides),
                                    elements));
  };
  if (piece.local_strides.rank() != piece.box.rank() || piece.local_offset < 0) return outside();
  std::int64_t last = piece.local_offset;
  for (int dim = 0; dim < piece.box.rank(); ++dim) {
    if (piece.local_strides[dim] < 0) return outside();
    const auto step = checked_mul(piece.local_strides[dim], piece.box.extent[dim] - 1);
    const auto next = step ? checked_add(last, *step) : std::nullopt;
    if (!next) return outside();
    last = *next;
  }
  if (last >= elements) return outside();
  return {};
}

/// The dimension along which the fewest boxes begin together.
int most_telling_dim(std::span<const Piece> pieces, int rank) {
  int best = 0;
  std::size_t most = 0;
  for (int dim = 0; dim < rank; ++dim) {
    std::vector<std::int64_t> offsets;
    for (const Piece& piece : pieces) offsets.push_back(piece.box.offset[dim]);
    std::sort(offsets.begin(), offsets.end());
    const auto distinct = static_cast<std::size_t>(std::unique(offsets.begin(), offsets.end()) - offsets.begin());
    if (distinct > most) {
      most = distinct;
      best = dim;
    }
  }
  return best;
}

Result<void> check_disjoint(std::span<const Piece> pieces, int rank) {
  if (pieces.size() < 2) return {};
  if (rank == 0) return invalid_argument("a scalar has more than one piece");
  const int dim = most_telling_dim(pieces, rank);
  std::vector<const Piece*> sorted;
  for (const Piece& piece : pieces) sorted.push_back(&piece);
  std::sort(sorted.begin(), sorted.end(),
            [dim](const Piece* a, const Piece* b) { return a->box.offset[dim] < b->box.offset[dim]; });
  std::int64_t comparisons = 0;
  for (std::size_t index = 0; index < sorted.size(); ++index) {
    const std::int64_t end = sorted[index]->box.end(dim);
    for (std::size_t next = index + 1; next < sorted.size() && sorted[next]->box.offset[dim] < end; ++next) {
      if (++comparisons > kMaxComparisons) return resource_exhausted("too many pieces to check that they are disjoint");
      if (intersect(sorted[index]->box, sorted[next]->box))
        return invalid_argument(
            fmt::format("pieces {} and {} overlap", to_string(sorted[index]->box), to_string(sorted[next]->box)));
    }
  }
  return {};
}

}  // namespace

ExplicitCollectionBuilder::ExplicitCollectionBuilder(std::vector<TensorInfo> tensors, int device_count,
                                                     std::vector<ObjectInfo> objects)
    : device_count_(device_count), tensors_(std::move(tensors)), objects_(std::move(objects)) {}

void ExplicitCollectionBuilder::reserve(std::size_t shards, int rank) {
  entries_.reserve(shards);
  words_.reserve(shards * static_cast<std::size_t>(2 * rank));
}

Result<void> ExplicitCollectionBuilder::check_ids(DeviceId device, TensorId tensor) const {
  if (tensor.value() < 0 || tensor.index() >= tensors_.size())
    return out_of_range(fmt::format("tensor number {} of {}", tensor.value(), tensors_.size()));
  if (device.value() < 0 || device.value() >= device_count_)
    return out_of_range(
        fmt::format("tensor '{}': device {} of {}", tensors_[tensor.index()].name, device.value(), device_count_));
  if (entries_.size() >= std::numeric_limits<std::uint32_t>::max()) return out_of_range("more than 2^32 - 2 shards");
  return {};
}

Result<void> ExplicitCollectionBuilder::check(DeviceId device, TensorId tensor, const SubTensor& shard) const {
  TENPLEX_TRY(check_ids(device, tensor));
  const TensorInfo& info = tensors_[tensor.index()];
  const auto elements = checked_volume(shard.local_shape);
  if (!elements) return out_of_range("local shape " + to_string(shard.local_shape) + " is too large");
  for (const Piece& piece : shard.pieces) {
    TENPLEX_TRY(check_box(piece.box, info.shape));
    if (piece.box.empty()) return invalid_argument(fmt::format("piece {} is empty", to_string(piece.box)));
    TENPLEX_TRY(check_view(piece, *elements));
  }
  return check_disjoint(shard.pieces, info.shape.rank());
}

Result<void> ExplicitCollectionBuilder::add(DeviceId device, TensorId tensor, const SubTensor& shard) {
  TENPLEX_TRY(check_ids(device, tensor));
  const TensorInfo& info = tensors_[tensor.index()];
  TENPLEX_TRY(check(device, tensor, shard).with_context(fmt::format("tensor '{}'", info.name)));
  const std::size_t begin = words_.size();
  append_shard_words(info.shape.rank(), shard, &words_);
  entries_.push_back({begin, static_cast<std::uint32_t>(words_.size() - begin), tensor.value(), device.value()});
  return {};
}

Result<void> ExplicitCollectionBuilder::add_box(DeviceId device, TensorId tensor, const Box& box) {
  TENPLEX_TRY(check_ids(device, tensor));
  const TensorInfo& info = tensors_[tensor.index()];
  TENPLEX_TRY(check_box(box, info.shape).with_context(fmt::format("tensor '{}'", info.name)));
  if (box.empty()) return add(device, tensor, sub_tensor_of_box(box));
  const std::size_t begin = words_.size();
  append_box_words(box, &words_);
  entries_.push_back({begin, static_cast<std::uint32_t>(words_.size() - begin), tensor.value(), device.value()});
  return {};
}

bool ExplicitCollectionBuilder::equal(const Entry& a, const Entry& b) const {
  return a.tensor == b.tensor && a.word_count == b.word_count &&
         std::equal(words_.begin() + static_cast<std::ptrdiff_t>(a.word_begin),
                    words_.begin() + static_cast<std::ptrdiff_t>(a.word_begin + a.word_count),
                    words_.begin() + static_cast<std::ptrdiff_t>(b.word_begin));
}

/// By tensor, then contents, then device.
bool ExplicitCollectionBuilder::less(const Entry& a, const Entry& b) const {
  if (a.tensor != b.tensor) return a.tensor < b.tensor;
  const auto words_of = [this](const Entry& entry) {
    return std::span(words_).subspan(entry.word_begin, entry.word_count);
  };
  const auto words_a = words_of(a);
  const auto words_b = words_of(b);
  const auto order =
      std::lexicographical_compare_three_way(words_a.begin(), words_a.end(), words_b.begin(), words_b.end());
  return order != 0 ? order < 0 : a.device < b.device;
}

std::vector<std::uint32_t> ExplicitCollectionBuilder::sorted_order() const {
  std::vector<std::uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto by_contents = [this](std::uint32_t a, std::uint32_t b) { return less(entries_[a], entries_[b]); };
  if (!std::is_sorted(order.begin(), order.end(), by_contents)) std::sort(order.begin(), order.end(), by_contents);
  return order;
}

void ExplicitCollectionBuilder::pack(const std::vector<std::uint32_t>& order, ExplicitCollection* collection,
                                     std::vector<std::int64_t>* shard_of_added) const {
  ExplicitCollection& target = *collection;
  target.words_.reserve(words_.size());
  target.word_begin_.reserve(order.size() + 1);
  target.holder_begin_.reserve(order.size() + 1);
  target.holders_.reserve(order.size());
  target.first_shard_.reserve(tensors_.size() + 1);
  if (shard_of_added != nullptr) shard_of_added->assign(entries_.size(), 0);
  const Entry* previous = nullptr;
  for (const std::uint32_t index : order) {
    const Entry& entry = entries_[index];
    while (target.first_shard_.size() <= static_cast<std::size_t>(entry.tensor))
      target.first_shard_.push_back(target.word_begin_.size());
    if (previous == nullptr || !equal(*previous, entry)) {
      target.word_begin_.push_back(target.words_.size());
      target.holder_begin_.push_back(static_cast<std::uint32_t>(target.holders_.size()));
      const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(entry.word_begin);
      target.words_.insert(target.words_.end(), begin, begin + entry.word_count);
      target.holders_.push_back(entry.device);
    } else if (previous->device != entry.device) {
      target.holders_.push_back(entry.device);
    }
    if (shard_of_added != nullptr)
      (*shard_of_added)[index] = static_cast<std::int64_t>(target.word_begin_.size() - 1 - target.first_shard_.back());
    previous = &entry;
  }
  while (target.first_shard_.size() <= tensors_.size()) target.first_shard_.push_back(target.word_begin_.size());
  target.word_begin_.push_back(target.words_.size());
  target.holder_begin_.push_back(static_cast<std::uint32_t>(target.holders_.size()));
}

Result<std::unique_ptr<ExplicitCollection>> ExplicitCollectionBuilder::finish(
    std::vector<std::int64_t>* shard_of_added) && {
  if (device_count_ < 1) return invalid_argument(fmt::format("expected at least one device, found {}", device_count_));
  for (const TensorInfo& tensor : tensors_) TENPLEX_TRY(check_tensor(tensor));
  for (const ObjectInfo& object : objects_)
    if (object.owner.value() < 0 || object.owner.value() >= device_count_)
      return out_of_range(
          fmt::format("object '{}': device {} of {}", object.name, object.owner.value(), device_count_));
  std::unique_ptr<ExplicitCollection> collection(new ExplicitCollection);
  collection->device_count_ = device_count_;
  pack(sorted_order(), collection.get(), shard_of_added);
  words_ = {};
  entries_ = {};
  collection->words_.shrink_to_fit();
  collection->word_begin_.shrink_to_fit();
  collection->holder_begin_.shrink_to_fit();
  collection->tensors_ = std::move(tensors_);
  collection->objects_ = std::move(objects_);
  collection->names_ = NameIndex(collection->tensors_);
  if (const std::optional<TensorId> repeated = collection->names_.repeated())
    return invalid_argument(
        fmt::format("two tensors have the name '{}'", collection->tensors_[repeated->index()].name));
  collection->index_holdings();
  const std::vector<Hash128> geometries = collection->find_equal_geometries();
  collection->compute_hash(geometries);
  return collection;
}

}  // namespace tenplex
