// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tenplex/plan/overlap.h"

namespace tenplex {
namespace {

/// `box` without all of `holes`.
std::vector<Box> without(const Box& box, const std::vector<Box>& holes) {
  std::vector<Box> rest{box};
  std::vector<Box> next;
  for (const Box& hole : holes) {
    next.clear();
    for (const Box& part : rest) {
      const std::vector<Box> left = subtract(part, hole);
      next.insert(next.end(), left.begin(), left.end());
    }
    std::swap(rest, next);
    if (rest.empty()) break;
  }
  return rest;
}

/// The part of a piece that starts at `offset` and is `extent` long, all of it inside the piece.
void clip_into(std::int64_t local_offset, const Dims& piece_offset, const Dims& strides, const Box& box, Piece* out) {
  out->box = box;
  out->local_strides = strides;
  for (int dim = 0; dim < box.rank(); ++dim) local_offset += (box.offset[dim] - piece_offset[dim]) * strides[dim];
  out->local_offset = local_offset;
}

}  // namespace

// One entry per non-empty piece of a source shard, numbered in order of (shard, piece).
struct SourceIndex::State {
  State(std::string tensor_name, const Dims& tensor_shape)
      : name(std::move(tensor_name)), shape(tensor_shape), index(tensor_shape.rank()) {}

  std::string name;
  Dims shape;
  BoxIndex index;
  std::vector<std::int64_t> shard;
  std::vector<std::int64_t> local_offset;
  std::vector<std::int64_t> strides;  // rank per entry
  std::vector<bool> shadowed;         // a lower-numbered entry holds some of its elements too
  std::int64_t bad_shard = -1;        // the first one whose pieces have another rank than the tensor

  Dims strides_of(std::uint32_t entry) const {
    const auto rank = static_cast<std::size_t>(shape.rank());
    return Dims(std::span(strides).subspan(entry * rank, rank));
  }
  void add(std::int64_t number, const SubTensor& sub_tensor);
  void emit(std::uint32_t entry, const Box& held, const Box& part, const Piece& target, std::vector<Fill>* fills) const;
  std::int64_t emit_common(std::uint32_t entry, const Piece& target, std::vector<Fill>* fills) const;
  std::int64_t emit_own(std::uint32_t entry, const Piece& target, std::vector<Fill>* fills) const;
  Error missing(const Piece& target, const std::vector<std::uint32_t>& hits) const;
};

void SourceIndex::State::add(std::int64_t number, const SubTensor& sub_tensor) {
  for (const Piece& piece : sub_tensor.pieces) {
    if (piece.box.rank() != shape.rank() || piece.local_strides.rank() != shape.rank()) {
      if (bad_shard < 0) bad_shard = number;
      continue;
    }
    if (piece.box.empty()) continue;
    index.add(piece.box);
    shard.push_back(number);
    local_offset.push_back(piece.local_offset);
    strides.insert(strides.end(), piece.local_strides.begin(), piece.local_strides.end());
  }
}

// Adds the common part of what `entry` holds and the target; returns its volume.
std::int64_t SourceIndex::State::emit_common(std::uint32_t entry, const Piece& target, std::vector<Fill>* fills) const {
  const auto rank = static_cast<std::size_t>(shape.rank());
  const std::int64_t* bounds = index.bounds(entry);
  const std::int64_t* steps = strides.data() + entry * rank;
  Fill& fill = fills->emplace_back();
  fill.source_shard = shard[entry];
  fill.source.local_strides = target.local_strides;  // for the rank; overwritten below
  fill.source.local_offset = local_offset[entry];
  fill.target = target;
  std::int64_t elements = 1;
  for (std::size_t at = 0; at < rank; ++at) {
    const auto dim = static_cast<int>(at);
    const std::int64_t begin = std::max(bounds[at], target.box.offset[dim]);
    const std::int64_t end = std::min(bounds[rank + at], target.box.offset[dim] + target.box.extent[dim]);
    fill.target.box.offset[dim] = begin;
    fill.target.box.extent[dim] = end - begin;
    fill.target.local_offset += (begin - target.box.offset[dim]) * target.local_strides[dim];
    fill.source.local_offset += (begin - bounds[at]) * steps[at];
    fill.source.local_strides[dim] = steps[at];
    elements *= end - begin;
  }
  fill.source.box = fill.target.box;
  return elements;
}

void SourceIndex::State::emit(std::uint32_t entry, const Box& held, const Box& part, const Piece& target,
                              std::vector<Fill>* fills) const {
  Fill& fill = fills->emplace_back();
  fill.source_shard = shard[entry];
  clip_into(local_offset[entry], held.offset, strides_of(entry), part, &fill.source);
  clip_into(target.local_offset, target.box.offset, target.local_strides, part, &fill.target);
}

// Emits what `entry` holds of `target` and no lower-numbered entry holds; returns its volume.
std::int64_t SourceIndex::State::emit_own(std::uint32_t entry, const Piece& target, std::vector<Fill>* fills) const {
  if (!shadowed[entry]) return emit_common(entry, target, fills);
  const Box held = index.box(entry);
  const auto common = intersect(held, target.box);
  if (!common) return 0;
  std::vector<std::uint32_t> others;
  index.find(*common, &others);
  std::vector<Box> holes;
  for (const std::uint32_t other : others)
    if (other < entry) holes.push_back(index.box(other));
  std::int64_t elements = 0;
  for (const Box& part : without(*common, holes)) {
    emit(entry, held, part, target, fills);
    elements += volume(part);
  }
  return elements;
}

Error SourceIndex::State::missing(const Piece& target, const std::vector<std::uint32_t>& hits) const {
  std::vector<Box> holes;
  holes.reserve(hits.size());
  for (const std::uint32_t entry : hits) holes.push_back(index.box(entry));
  const std::vector<Box> rest = without(target.box, holes);
  const auto first =
      std::min_element(rest.begin(), rest.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  return invalid_argument(
      fmt::format("tensor '{}': no source shard holds {}", name, to_string(first == rest.end() ? target.box : *first)));
}

SourceIndex::SourceIndex(const Collection& source, TensorId tensor) {
  const TensorInfo& info = source.tensors()[tensor.index()];
  state_ = std::make_unique<State>(info.name, info.shape);
  SubTensor shard;
  for (std::int64_t number = 0; number < source.shard_count(tensor); ++number) {
    source.shard(tensor, number, &shard);
    state_->add(number, shard);
  }
  state_->index.build();
  state_->shadowed.resize(state_->index.size());
  for (std::size_t entry = 0; entry < state_->index.size(); ++entry)
    state_->shadowed[entry] = state_->index.is_shadowed(static_cast<std::uint32_t>(entry));
}

SourceIndex::~SourceIndex() = default;

Result<void> SourceIndex::fill(const SubTensor& target, std::vector<Fill>* fills) const {
  fills->clear();
  const State& state = *state_;
  if (state.bad_shard >= 0)
    return invalid_argument(fmt::format("tensor '{}': source shard {} has pieces of another rank than shape {}",
                                        state.name, state.bad_shard, to_string(state.shape)));
  std::vector<std::uint32_t> hits;
  for (const Piece& piece : target.pieces) {
    if (piece.box.rank() != state.shape.rank() || piece.local_strides.rank() != state.shape.rank() ||
        !contains(Box::whole(state.shape), piece.box))
      return invalid_argument(fmt::format("tensor '{}': target box {} does not lie in shape {}", state.name,
                                          to_string(piece.box), to_string(state.shape)));
    if (piece.box.empty()) continue;
    state.index.find(piece.box, &hits);
    const std::int64_t wanted = volume(piece.box);
    std::int64_t found = 0;
    for (const std::uint32_t entry : hits) {
      found += state.emit_own(entry, piece, fills);
      if (found == wanted) break;
    }
    if (found != wanted) return state.missing(piece, hits);
  }
  return {};
}

}  // namespace tenplex
