// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/group_mapper.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxTargets = std::int64_t{1} << 20;
constexpr std::size_t kMaxPieces = std::size_t{1} << 19;

/// The next numbers in row-major order of those words for which `moves` is true; false after the last.
template <typename Moves>
bool advance(const std::vector<std::int64_t>& counts, Moves moves, WordValues* values) {
  for (std::size_t word = counts.size(); word-- > 0;) {
    if (!moves(word)) continue;
    if (++(*values)[word] < counts[word]) return true;
    (*values)[word] = 0;
  }
  return false;
}

/// Sub-byte elements can be moved in whole bytes of the last axis only.
bool cuts_bytes(const MapPiece& piece, DType dtype) {
  if (!is_sub_byte(dtype)) return false;
  const int last = piece.target_box.rank() - 1;
  if (last < 0 || piece.axes[static_cast<std::size_t>(last)] != piece.source_box.rank() - 1) return true;
  const auto whole = [&](std::int64_t elements) { return packed_bytes(dtype, elements).has_value(); };
  return !whole(piece.target_box.offset[last]) || !whole(piece.target_box.extent[last]) ||
         !whole(piece.source_box.offset[piece.source_box.rank() - 1]);
}

}  // namespace

bool GroupMapper::joins_names(const Work& work, std::size_t word) const {
  return is_stacked(work.target, work.rule, word) && !is_stacked(work.source, work.rule, word);
}

bool GroupMapper::opens_axis(const Work& work, std::size_t word) const {
  return is_stacked(work.source, work.rule, word) && !is_stacked(work.target, work.rule, word);
}

Result<void> GroupMapper::add_targets(const Work& work, TensorMap* made) const {
  WordValues values = work.group.members.front().values;
  auto count = static_cast<std::int64_t>(work.target.names.size());
  for (std::size_t word = 0; word < values.size(); ++word)
    if (opens_axis(work, word)) {
      values[word] = 0;
      count = checked_mul(count, work.counts[word]).value_or(kMaxTargets + 1);
    }
  if (count > kMaxTargets - static_cast<std::int64_t>(made->targets.size()))
    return out_of_range(fmt::format("{}: more than {} tensors", map_.where(work.rule.line), kMaxTargets));
  do {
    for (std::size_t slot = 0; slot < work.target.names.size(); ++slot)
      TENPLEX_TRY(add_target(work, values, slot, made));
  } while (advance(work.counts, [&](std::size_t word) { return opens_axis(work, word); }, &values));
  return {};
}

/// Steps and the like: one number for all parts that are one tensor on the target's side, which must be the same.
Result<void> GroupMapper::add_scalars(const Work& work, TensorMap* made) const {
  const TensorInfo& first = tensor_of(*work.grid.front());
  for (const MapMember* member : work.grid) {
    const TensorInfo& other = tensor_of(*member);
    if (other.dtype != first.dtype || other.shape != first.shape)
      return error(work, fmt::format("tensors '{}' of {} {} and '{}' of {} {} do not fit together", first.name,
                                     to_string(first.dtype), to_string(first.shape), other.name, to_string(other.dtype),
                                     to_string(other.shape)));
  }
  for (std::size_t word = 0; word < work.rule.words.size(); ++word)
    if (opens_axis(work, word))
      return error(work, fmt::format("tensor '{}' is one number for every {}: how many there are is not known",
                                     first.name, work.rule.words[word]));
  const bool one_to_one = work.source.names.size() == work.target.names.size();
  const std::size_t slots = work.source.names.size();
  for (std::size_t slot = 0; slot < work.target.names.size(); ++slot) {
    const std::size_t from = one_to_one ? slot : 0;
    const MapMember& kept = *work.grid[from];
    TENPLEX_TRY(add_scalar(work, kept, slot, made));
    for (std::size_t place = from; place < work.grid.size(); place += one_to_one ? slots : 1)
      if (slot == from && place != from) made->equal.emplace_back(kept.tensor, work.grid[place]->tensor);
  }
  return {};
}

Result<void> GroupMapper::add_scalar(const Work& work, const MapMember& kept, std::size_t slot, TensorMap* made) const {
  if (static_cast<std::int64_t>(made->targets.size()) >= kMaxTargets)
    return out_of_range(fmt::format("{}: more than {} tensors", map_.where(work.rule.line), kMaxTargets));
  const std::string name = work.target.names[slot].fill(work.rule.words, work.group.members.front().values);
  made->targets.push_back({work.group.frame.around(name), tensor_of(kept).dtype, {}});
  made->first.push_back(made->pieces.size());
  made->pieces.push_back({kept.tensor, Box::whole({}), Box::whole({}), {}});
  return {};
}

Result<void> GroupMapper::add_target(const Work& work, const WordValues& values, std::size_t slot,
                                     TensorMap* made) const {
  const DType dtype = tensor_of(*work.grid.front()).dtype;
  TENPLEX_ASSIGN_OR_RETURN(Dims shape, target_shape(work, slot));
  TensorInfo target{work.group.frame.around(work.target.names[slot].fill(work.rule.words, values)), dtype, shape};
  if (auto checked = check_tensor(target); !checked)
    return std::move(checked).error().with_context(map_.where(work.rule.line));
  made->targets.push_back(std::move(target));
  made->first.push_back(made->pieces.size());
  const bool joined = work.target.names.size() == 1 && work.parts.size() > 1;
  WordValues at = values;
  for (std::size_t word = 0; word < at.size(); ++word)
    if (joins_names(work, word)) at[word] = 0;
  do {
    if (joined && work.source_join == work.target_join) {
      TENPLEX_TRY(add_piece(work, at, {0, whole_part(work), {}}, made));
      continue;
    }
    for (std::size_t part = joined ? 0 : slot; part < (joined ? work.parts.size() : slot + 1); ++part)
      TENPLEX_TRY(add_part(work, at, part, made));
  } while (advance(work.counts, [&](std::size_t word) { return joins_names(work, word); }, &at));
  return {};
}

Dims GroupMapper::whole_part(const Work& work) const {
  Dims whole = work.parts.front();
  for (std::size_t part = 1; part < work.parts.size(); ++part) whole[work.rule.dim] += work.parts[part][work.rule.dim];
  return whole;
}

Result<Dims> GroupMapper::target_shape(const Work& work, std::size_t slot) const {
  const Dims rest = work.target.names.size() == 1 ? whole_part(work) : work.parts[slot];
  if (work.target.transpose && rest.rank() != 2)
    return error(work, fmt::format("'{}' is transposed: expected 2 dimensions, found {}",
                                   work.target.names[slot].text(), rest.rank()));
  if (static_cast<int>(work.target.stack.size()) + rest.rank() > kMaxRank)
    return error(work,
                 fmt::format("'{}' would have more than {} dimensions", work.target.names[slot].text(), kMaxRank));
  Dims shape;
  for (const std::string& word : work.target.stack) shape.push_back(work.counts[word_index(work.rule, word)]);
  for (int dim = 0; dim < rest.rank(); ++dim)
    shape.push_back(rest[work.target.transpose ? rest.rank() - 1 - dim : dim]);
  return shape;
}

Result<void> GroupMapper::add_part(const Work& work, const WordValues& values, std::size_t part,
                                   TensorMap* made) const {
  if (work.rule.widths.empty()) return add_piece(work, values, {part, work.parts[part], {}}, made);
  for (const PartRun& run : PartJoin::runs(work.source_join, work.target_join, part)) {
    Stretch stretch{part, work.parts[part], run};
    stretch.extent[work.rule.dim] = run.size;
    TENPLEX_TRY(add_piece(work, values, stretch, made));
  }
  return {};
}

const MapMember& GroupMapper::member_at(const Work& work, const WordValues& values, std::size_t part) const {
  std::size_t place = 0;
  for (std::size_t word = 0; word < values.size(); ++word)
    if (joins_names(work, word))
      place = place * static_cast<std::size_t>(work.counts[word]) + static_cast<std::size_t>(values[word]);
  const std::size_t slots = work.source.names.size();
  return *work.grid[place * slots + (slots > 1 ? part : 0)];
}

Box GroupMapper::box_on(const MapSide& side, const Work& work, const WordValues& values, const Stretch& stretch,
                        std::int64_t start) const {
  Box box;
  for (const std::string& name : side.stack) {
    const std::size_t word = word_index(work.rule, name);
    const bool one = joins_names(work, word) || opens_axis(work, word);
    box.offset.push_back(one ? values[word] : 0);
    box.extent.push_back(one ? 1 : work.counts[word]);
  }
  const int rank = stretch.extent.rank();
  for (int axis = 0; axis < rank; ++axis) {
    const int dim = side.transpose ? rank - 1 - axis : axis;
    box.offset.push_back(dim == work.rule.dim ? start : 0);
    box.extent.push_back(stretch.extent[dim]);
  }
  return box;
}

AxisMap GroupMapper::axes_of(const Work& work, int rank) const {
  AxisMap axes{};
  const auto& source = work.source.stack;
  std::size_t axis = 0;
  for (const std::string& word : work.target.stack) {
    const auto found = std::find(source.begin(), source.end(), word);
    axes[axis++] = found == source.end() ? kNewAxis : static_cast<std::int16_t>(found - source.begin());
  }
  const bool turned = work.source.transpose != work.target.transpose;
  for (int dim = 0; dim < rank; ++dim)
    axes[axis++] = static_cast<std::int16_t>(static_cast<int>(source.size()) + (turned ? rank - 1 - dim : dim));
  return axes;
}

Result<void> GroupMapper::add_piece(const Work& work, const WordValues& values, const Stretch& stretch,
                                    TensorMap* made) const {
  const MapMember& member = member_at(work, values, stretch.part);
  MapPiece piece{member.tensor, box_on(work.source, work, values, stretch, stretch.run.from),
                 box_on(work.target, work, values, stretch, stretch.run.to), axes_of(work, stretch.extent.rank())};
  if (piece.source_box.empty()) return {};
  const TensorInfo& source = tensor_of(member);
  if (cuts_bytes(piece, source.dtype))
    return unsupported(fmt::format("{}: tensor '{}' of {} {} would be cut inside of a byte", map_.where(work.rule.line),
                                   source.name, to_string(source.dtype), to_string(source.shape)));
  if (made->pieces.size() >= kMaxPieces)
    return out_of_range(fmt::format("{}: more than {} pieces", map_.where(work.rule.line), kMaxPieces));
  made->pieces.push_back(std::move(piece));
  return {};
}

}  // namespace tenplex
