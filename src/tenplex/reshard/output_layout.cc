// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/output_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace tenplex {
namespace {

using Kind = OutputArray::Kind;

bool is_data(const Segment& segment) {
  return segment.kind != Segment::Kind::kLiteral && segment.kind != Segment::Kind::kExtra;
}

Kind kind_of(Segment::Kind kind) {
  if (kind == Segment::Kind::kPiece) return Kind::kPiece;
  return kind == Segment::Kind::kStorage ? Kind::kStorage : Kind::kShard;
}

// True for a storage that is one whole tensor, contiguous, and needs no special care.
bool is_whole(std::int64_t bytes, std::span<const StorageView> views, const Collection& target) {
  if (views.size() != 1) return false;
  const StorageView& view = views.front();
  const TensorInfo& tensor = target.tensors()[view.tensor.index()];
  if (view.offset != 0 || bytes != size_bytes(tensor)) return false;
  return volume(tensor.shape) == 0 || view.strides == row_major_strides(tensor.shape);
}

bool is_same(const OutputArray& a, const OutputArray& b) {
  if (a.kind != b.kind || a.shard != b.shard) return false;
  return a.kind == Kind::kStorage || (a.tensor == b.tensor && a.piece == b.piece);
}

// The data segments of a plan, grouped by tensor, storages last; only their places are kept.
class Grouped {
 public:
  Grouped(const OutputPlan& plan, const Collection& target, const CheckpointWriter& writer)
      : plan_(plan), target_(target), writer_(writer), tensors_(target.tensors().size()) {}

  // By what they hold, then in the order of files and offsets.
  std::vector<Destination> run() && {
    std::vector<std::uint32_t> first(tensors_ + 1, 0);
    std::vector<std::uint32_t> groups;
    for_each([&](const Segment& segment, const Destination&) {
      const std::size_t group = group_of(segment);
      groups.push_back(static_cast<std::uint32_t>(group));
      ++first[group];
    });
    std::exclusive_scan(first.begin(), first.end(), first.begin(), std::uint32_t{0});
    std::vector<Destination> places(groups.size());
    auto group = groups.begin();
    for_each([&](const Segment&, const Destination& place) { places[first[*group++]++] = place; });
    for (std::size_t i = 0; i <= tensors_; ++i) {
      const auto begin = places.begin() + (i == 0 ? 0 : first[i - 1]);
      std::sort(begin, places.begin() + first[i], [&](const Destination& a, const Destination& b) {
        return std::tuple(identity(a, i), a.file, a.segment) < std::tuple(identity(b, i), b.file, b.segment);
      });
    }
    return places;
  }

 private:
  // Of what lies there, in its group. The storages in a tensor's group are all the whole tensor.
  std::tuple<std::int64_t, Segment::Kind, std::int32_t> identity(const Destination& place, std::size_t group) const {
    const Segment& segment = plan_.files[static_cast<std::size_t>(place.file)].segments[place.segment];
    const bool whole = group < tensors_ && segment.kind == Segment::Kind::kStorage;
    return {whole ? 0 : segment.shard, segment.kind, segment.piece};
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t file = 0; file < plan_.files.size(); ++file) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < plan_.files[file].segments.size(); ++i) {
        const Segment& segment = plan_.files[file].segments[i];
        if (is_data(segment))
          visit(segment, Destination{static_cast<std::int32_t>(file), static_cast<std::uint32_t>(i), offset});
        offset += segment.size_bytes;
      }
    }
  }

  std::size_t group_of(const Segment& segment) const {
    if (segment.kind != Segment::Kind::kStorage) return segment.tensor.index();
    const std::vector<StorageView> views = writer_.storage_views(segment.shard);
    return is_whole(segment.size_bytes, views, target_) ? views.front().tensor.index() : tensors_;
  }

  const OutputPlan& plan_;
  const Collection& target_;
  const CheckpointWriter& writer_;
  std::size_t tensors_;
};

}  // namespace

Result<OutputLayout> OutputLayout::build(const OutputPlan& plan, const Collection& target,
                                         const CheckpointWriter& writer) {
  OutputLayout layout;
  layout.destinations_ = Grouped(plan, target, writer).run();
  layout.arrays_.reserve(layout.destinations_.size());
  for (std::uint32_t i = 0; i < layout.destinations_.size(); ++i) {
    const Destination& place = layout.destinations_[i];
    layout.add(plan.files[static_cast<std::size_t>(place.file)].segments[place.segment], i, target, writer);
  }
  layout.index_tensors(target.tensors().size());
  TENPLEX_TRY(layout.check_complete(plan, target));
  return layout;
}

// One more place of the array that came last, or a new array.
void OutputLayout::add(const Segment& segment, std::uint32_t place, const Collection& target,
                       const CheckpointWriter& writer) {
  OutputArray array;
  array.kind = kind_of(segment.kind);
  array.tensor = segment.tensor;
  array.shard = segment.shard;
  array.piece = segment.piece;
  array.size_bytes = segment.size_bytes;
  array.first_destination = place;
  std::vector<StorageView> views;
  if (array.kind == Kind::kStorage) {
    views = writer.storage_views(segment.shard);
    if (is_whole(segment.size_bytes, views, target)) {
      array.kind = Kind::kWhole;
      array.tensor = views.front().tensor;
      array.shard = 0;
    }
    array.piece = array.kind == Kind::kWhole ? 0 : static_cast<std::int32_t>(storages_.size());
  }
  std::vector<OutputArray>& arrays = array.kind == Kind::kStorage ? storages_ : arrays_;
  if (arrays.empty() || !is_same(arrays.back(), array)) {
    if (array.kind == Kind::kStorage) views_.push_back(std::move(views));
    arrays.push_back(array);
  }
  ++arrays.back().destination_count;
}

void OutputLayout::index_tensors(std::size_t tensors) {
  tensor_begin_.assign(tensors + 1, 0);
  for (const OutputArray& array : arrays_) ++tensor_begin_[array.tensor.index() + 1];
  for (std::size_t t = 0; t < tensors; ++t) tensor_begin_[t + 1] += tensor_begin_[t];
  std::vector<std::pair<std::pair<std::int32_t, std::int64_t>, TensorId>> first;
  for (std::size_t t = 0; t < tensors; ++t) {
    if (arrays_of(TensorId(t)).empty()) continue;
    const Destination& place = destinations(arrays_of(TensorId(t)).front()).front();
    first.push_back({{place.file, place.offset}, TensorId(t)});
  }
  std::sort(first.begin(), first.end());
  for (const auto& [place, tensor] : first) order_.push_back(tensor);
}

std::span<const OutputArray> OutputLayout::arrays_of(TensorId tensor) const {
  const std::uint32_t begin = tensor_begin_[tensor.index()];
  return std::span(arrays_).subspan(begin, tensor_begin_[tensor.index() + 1] - begin);
}

namespace {

// True for a tensor that only objects hold: no file has shards of it.
bool is_only_whole(std::span<const OutputArray> arrays) {
  const auto whole = [](const OutputArray& array) { return array.kind == Kind::kWhole; };
  return !arrays.empty() && std::all_of(arrays.begin(), arrays.end(), whole);
}

// The arrays of one tensor hold every element of every shard, and nothing else but the whole tensor, for objects.
Result<void> check_arrays(const Collection& target, TensorId id, std::span<const OutputArray> arrays) {
  const TensorInfo& tensor = target.tensors()[id.index()];
  SubTensor shard;
  auto next = arrays.begin();
  for (std::int64_t s = 0; s < target.shard_count(id); ++s) {
    target.shard(id, s, &shard);
    const auto wrong = [&] {
      return internal_error(fmt::format("the output plan misses shard {} of tensor '{}'", s, tensor.name));
    };
    std::size_t pieces = 0;
    bool whole = false;
    for (; next != arrays.end() && next->shard == s; ++next) {
      std::optional<std::int64_t> bytes;
      if (next->kind == Kind::kWhole) {
        bytes = packed_bytes(tensor.dtype, volume(tensor.shape));
      } else if (next->kind == Kind::kPiece) {
        if (next->piece < 0 || static_cast<std::size_t>(next->piece) >= shard.pieces.size()) return wrong();
        bytes = packed_bytes(tensor.dtype, volume(shard.pieces[static_cast<std::size_t>(next->piece)].box));
        ++pieces;
      } else {
        bytes = packed_bytes(tensor.dtype, volume(shard.local_shape));
        whole = true;
      }
      if (bytes != next->size_bytes) return wrong();
    }
    const bool holds_nothing =
        std::all_of(shard.pieces.begin(), shard.pieces.end(), [](const Piece& piece) { return piece.box.empty(); });
    if (!whole && pieces < shard.pieces.size() && !holds_nothing) return wrong();
  }
  if (next != arrays.end()) return internal_error(fmt::format("too many shards of tensor '{}'", tensor.name));
  return {};
}

}  // namespace

Result<void> OutputLayout::check_complete(const OutputPlan& plan, const Collection& target) const {
  const std::span<const TensorInfo> tensors = target.tensors();
  if (!plan.stored_as.empty() && plan.stored_as.size() != tensors.size()) {
    return internal_error("the output plan tells of some tensors only how they are stored");
  }
  std::vector<bool> in_storage(tensors.size());
  for (const std::vector<StorageView>& views : views_)
    for (const StorageView& view : views) in_storage[view.tensor.index()] = true;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto arrays = arrays_of(TensorId(t));
    if ((in_storage[t] && arrays.empty()) || is_only_whole(arrays)) continue;
    const TensorId stored = plan.stored_as.empty() ? TensorId(t) : plan.stored_as[t];
    if (arrays.empty() && stored != TensorId(t)) {
      // The stored one is checked in its own turn, as it is not an alias itself.
      const TensorInfo& other = tensors[stored.index()];
      if (plan.stored_as[stored.index()] == stored && other.dtype == tensors[t].dtype &&
          other.shape == tensors[t].shape) {
        continue;
      }
      return internal_error(
          fmt::format("the output plan stores tensor '{}' as '{}', which cannot be", tensors[t].name, other.name));
    }
    if (target.shard_count(TensorId(t)) == 0 && size_bytes(tensors[t]) > 0) {
      return internal_error(fmt::format("no shard of the target holds tensor '{}'", tensors[t].name));
    }
    TENPLEX_TRY(check_arrays(target, TensorId(t), arrays));
  }
  return {};
}

}  // namespace tenplex
