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

struct Placed {
  OutputArray array;
  Destination destination;
};

Kind kind_of(Segment::Kind kind) {
  if (kind == Segment::Kind::kPiece) return Kind::kPiece;
  return kind == Segment::Kind::kStorage ? Kind::kStorage : Kind::kShard;
}

auto identity(const OutputArray& array) {
  return std::tuple(array.kind == Kind::kStorage, array.kind == Kind::kStorage ? 0 : array.tensor.value(), array.shard,
                    array.kind, array.piece);
}

// A storage that is one whole tensor, contiguous, needs no special care.
OutputArray simplified(OutputArray array, const Collection& target) {
  if (array.kind != Kind::kStorage || array.views.size() != 1) return array;
  const StorageView& view = array.views.front();
  const TensorInfo& tensor = target.tensors()[view.tensor.index()];
  if (view.offset != 0 || array.size_bytes != size_bytes(tensor)) return array;
  if (volume(tensor.shape) > 0 && !(view.strides == row_major_strides(tensor.shape))) return array;
  array.kind = Kind::kWhole;
  array.tensor = view.tensor;
  array.shard = 0;
  array.views.clear();
  return array;
}

std::vector<Placed> data_segments(const OutputPlan& plan, const Collection& target, const CheckpointWriter& writer) {
  std::vector<Placed> segments;
  for (std::size_t file = 0; file < plan.files.size(); ++file) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < plan.files[file].segments.size(); ++i) {
      const Segment& segment = plan.files[file].segments[i];
      if (segment.kind != Segment::Kind::kLiteral && segment.kind != Segment::Kind::kExtra) {
        OutputArray array;
        array.kind = kind_of(segment.kind);
        array.tensor = segment.tensor;
        array.shard = segment.shard;
        array.piece = segment.piece;
        array.size_bytes = segment.size_bytes;
        if (array.kind == Kind::kStorage) array.views = writer.storage_views(segment.shard);
        segments.push_back({simplified(std::move(array), target),
                            {static_cast<std::int32_t>(file), static_cast<std::uint32_t>(i), offset}});
      }
      offset += segment.size_bytes;
    }
  }
  return segments;
}

// Numbers of the segments by what they hold, then as they are: by tensor, storages last, then inside each tensor.
std::vector<std::uint32_t> sorted_order(const std::vector<Placed>& segments, std::size_t tensors) {
  const auto group = [&](const Placed& segment) {
    return segment.array.kind == Kind::kStorage ? tensors : segment.array.tensor.index();
  };
  std::vector<std::uint32_t> first(tensors + 1, 0);
  for (const Placed& segment : segments) ++first[group(segment)];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> order(segments.size());
  for (auto number = static_cast<std::uint32_t>(segments.size()); number-- > 0;)
    order[--first[group(segments[number])]] = number;
  for (std::size_t i = 0; i <= tensors; ++i) {
    const auto last = i == tensors ? order.end() : order.begin() + first[i + 1];
    std::sort(order.begin() + first[i], last, [&](std::uint32_t a, std::uint32_t b) {
      const auto one = identity(segments[a].array);
      const auto other = identity(segments[b].array);
      return one != other ? one < other : a < b;
    });
  }
  return order;
}

}  // namespace

Result<OutputLayout> OutputLayout::build(const OutputPlan& plan, const Collection& target,
                                         const CheckpointWriter& writer) {
  OutputLayout layout;
  std::vector<Placed> segments = data_segments(plan, target, writer);
  const std::vector<std::uint32_t> order = sorted_order(segments, target.tensors().size());
  layout.destinations_.reserve(segments.size());
  for (std::size_t begin = 0; begin < segments.size();) {
    OutputArray array = std::move(segments[order[begin]].array);
    array.first_destination = static_cast<std::uint32_t>(layout.destinations_.size());
    const auto same = identity(array);
    std::size_t end = begin;
    for (; end < segments.size() && (end == begin || identity(segments[order[end]].array) == same); ++end)
      layout.destinations_.push_back(segments[order[end]].destination);
    array.destination_count = static_cast<std::uint32_t>(end - begin);
    (array.kind == Kind::kStorage ? layout.storages_ : layout.arrays_).push_back(std::move(array));
    begin = end;
  }
  layout.index_tensors(target.tensors().size());
  TENPLEX_TRY(layout.check_complete(plan, target));
  return layout;
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
  for (const OutputArray& storage : storages_)
    for (const StorageView& view : storage.views) in_storage[view.tensor.index()] = true;
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
