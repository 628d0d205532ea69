// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// group_mapper.cc finds the tensors and parts of a group, group_pieces.cc makes the targets and their pieces.
#include "tenplex/ptc/group_mapper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 16;

/// What is left of the shape behind its first dimensions, turned round where the side transposes. Requires: it has
/// them.
Dims behind_stack(const Dims& shape, const MapSide& side) {
  Dims rest(shape.span().subspan(side.stack.size()));
  if (side.transpose) std::reverse(rest.begin(), rest.end());
  return rest;
}

}  // namespace

Error GroupMapper::error(const Work& work, std::string_view message) const {
  return invalid_argument(fmt::format("{}: {}", map_.where(work.rule.line), message));
}

bool GroupMapper::is_stacked(const MapSide& side, const MapRule& rule, std::size_t word) const {
  return std::find(side.stack.begin(), side.stack.end(), rule.words[word]) != side.stack.end();
}

std::size_t GroupMapper::word_index(const MapRule& rule, std::string_view word) const {
  return static_cast<std::size_t>(std::find(rule.words.begin(), rule.words.end(), word) - rule.words.begin());
}

Result<std::int64_t> GroupMapper::value_of(const Size& size) const {
  if (size.name.empty()) return size.value;
  for (const auto& [name, value] : sizes_)
    if (name == size.name) return value;
  std::string keys;
  for (const SizeRule& known : map_.rules().sizes) {
    if (known.name != size.name || known.config.empty()) continue;
    keys = fmt::format(", and there is no config.json with {}", fmt::join(known.config, " or "));
    if (known.otherwise && find_size(sizes_, known.otherwise->name))
      keys += fmt::format("; '{}', which --sizes gives, does not tell it", known.otherwise->name);
  }
  return invalid_argument(
      fmt::format("size '{}' of map '{}' has no value: --sizes does not give it{}", size.name, map_.name(), keys));
}

Result<std::vector<std::int64_t>> GroupMapper::widths_of(const MapRule& rule) const {
  std::vector<std::int64_t> widths;
  for (const Size& width : rule.widths) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, value_of(width));
    widths.push_back(value);
  }
  return widths;
}

Result<void> GroupMapper::add(const MapGroup& group, TensorMap* made) {
  const MapRule& rule = *group.rule;
  Work work{group, rule, rule.sides[from_], rule.sides[1 - from_], {}, {}, {}, {}, {}};
  TENPLEX_TRY(find_members(&work));
  if (group.frame.is_slot() && tensor_of(*work.grid.front()).shape.empty()) return add_scalars(work, made);
  TENPLEX_TRY(find_parts(&work));
  if (!rule.widths.empty()) TENPLEX_TRY(join_parts(&work));
  return add_targets(work, made);
}

Result<void> GroupMapper::find_members(Work* work) const {
  const MapRule& rule = work->rule;
  work->counts.assign(rule.words.size(), 1);
  for (std::size_t word = 0; word < rule.words.size(); ++word)
    if (joins_names(*work, word))
      for (const MapMember& member : work->group.members)
        work->counts[word] = std::max(work->counts[word], member.values[word] + 1);
  const std::size_t slots = work->source.names.size();
  std::vector<std::pair<std::int64_t, const MapMember*>> places;
  for (const MapMember& member : work->group.members) {
    std::optional<std::int64_t> place = 0;
    for (std::size_t word = 0; word < rule.words.size() && place; ++word)
      if (joins_names(*work, word)) {
        place = checked_mul(*place, work->counts[word]);
        if (place) place = checked_add(*place, member.values[word]);
      }
    if (place) place = checked_mul(*place, static_cast<std::int64_t>(slots));
    if (!place) return out_of_range(fmt::format("{}: too many tensors to stack", map_.where(rule.line)));
    places.emplace_back(*place + static_cast<std::int64_t>(member.slot), &member);
  }
  std::sort(places.begin(), places.end());
  std::int64_t expected = static_cast<std::int64_t>(slots);
  for (const std::int64_t count : work->counts) expected = checked_mul(expected, count).value_or(INT64_MAX);
  for (const auto& [place, member] : places) {
    if (place != static_cast<std::int64_t>(work->grid.size())) break;
    work->grid.push_back(member);
  }
  if (static_cast<std::int64_t>(work->grid.size()) == expected) return {};
  return missing_member(*work);
}

Error GroupMapper::missing_member(const Work& work) const {
  const MapRule& rule = work.rule;
  const MapMember& known = work.group.members.front();
  WordValues values = known.values;
  std::int64_t place = static_cast<std::int64_t>(work.grid.size());
  const auto slots = static_cast<std::int64_t>(work.source.names.size());
  const auto slot = static_cast<std::size_t>(place % slots);
  place /= slots;
  for (std::size_t word = rule.words.size(); word-- > 0;) {
    if (!joins_names(work, word)) continue;
    values[word] = place % work.counts[word];
    place /= work.counts[word];
  }
  const SlotFrame& frame = work.group.frame;
  return error(work, fmt::format("tensor '{}' is missing, '{}' is there; together they are '{}'",
                                 frame.around(work.source.names[slot].fill(rule.words, values)), tensor_of(known).name,
                                 frame.around(work.target.names.front().text())));
}

Result<void> GroupMapper::find_parts(Work* work) const {
  const MapSide& source = work->source;
  const std::size_t slots = source.names.size();
  const TensorInfo& first = tensor_of(*work->grid.front());
  const std::size_t stacked = source.stack.size();
  const auto stack_of = [&](const TensorInfo& tensor) { return Dims(tensor.shape.span().first(stacked)); };
  for (std::size_t index = 0; index < work->grid.size(); ++index) {
    const TensorInfo& tensor = tensor_of(*work->grid[index]);
    const TensorInfo& like = tensor_of(*work->grid[index % slots]);
    if (tensor.shape.size() < stacked || (source.transpose && tensor.shape.size() != stacked + 2))
      return error(
          *work, fmt::format("tensor '{}' of shape {} must have {} dimensions", tensor.name, to_string(tensor.shape),
                             source.transpose ? fmt::format("{}", stacked + 2) : fmt::format("at least {}", stacked)));
    const TensorInfo& other = tensor.dtype != first.dtype || stack_of(tensor) != stack_of(first) ? first : like;
    if (tensor.dtype != other.dtype || tensor.shape != like.shape || stack_of(tensor) != stack_of(other))
      return error(*work, fmt::format("tensors '{}' of {} {} and '{}' of {} {} do not fit together", other.name,
                                      to_string(other.dtype), to_string(other.shape), tensor.name,
                                      to_string(tensor.dtype), to_string(tensor.shape)));
  }
  for (std::size_t axis = 0; axis < stacked; ++axis) {
    work->counts[word_index(work->rule, source.stack[axis])] = first.shape[static_cast<int>(axis)];
    if (first.shape[static_cast<int>(axis)] == 0)
      return error(*work, fmt::format("tensor '{}' of shape {} stacks nothing", first.name, to_string(first.shape)));
  }
  for (std::size_t slot = 0; slot < slots; ++slot)
    work->parts.push_back(behind_stack(tensor_of(*work->grid[slot]).shape, source));
  return {};
}

Result<void> GroupMapper::join_parts(Work* work) const {
  const MapRule& rule = work->rule;
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::int64_t> widths, widths_of(rule));
  const TensorInfo& first = tensor_of(*work->grid.front());
  if (work->parts.front().rank() <= rule.dim)
    return error(*work, fmt::format("tensor '{}' of shape {} has no dimension {} to join along", first.name,
                                    to_string(first.shape), rule.dim));
  std::vector<std::int64_t> extents;
  if (work->source.names.size() == 1) {
    const Dims whole = work->parts.front();
    auto found = part_extents(whole[rule.dim], widths);
    if (!found)
      return error(*work, fmt::format("tensor '{}' of shape {}: {}{}", first.name, to_string(first.shape),
                                      found.error().message(), sizes_text(rule)));
    extents = *std::move(found);
    work->parts.assign(extents.size(), whole);
    for (std::size_t part = 0; part < extents.size(); ++part) work->parts[part][rule.dim] = extents[part];
  } else {
    TENPLEX_TRY(check_joinable(*work));
    for (const Dims& part : work->parts) extents.push_back(part[rule.dim]);
    if (!in_proportion(extents, widths))
      return error(*work,
                   fmt::format("tensors {} of {} in dimension {}: expected extents like [{}]{}", names_text(*work),
                               fmt::join(extents, ", "), rule.dim, fmt::join(widths, ", "), sizes_text(rule)));
  }
  for (const auto& [side, join] : {std::pair(&work->source, &work->source_join), {&work->target, &work->target_join}}) {
    if (side->names.size() > 1) {
      *join = PartJoin::apart(extents);
      continue;
    }
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t blocks, value_of(side->blocks));
    if (blocks > kMaxBlocks)
      return error(*work, fmt::format("{} blocks, at most {}{}", blocks, kMaxBlocks, sizes_text(rule)));
    auto made = PartJoin::joined(extents, blocks);
    if (!made)
      return error(*work, fmt::format("tensors {}: {}{}", names_text(*work), made.error().message(), sizes_text(rule)));
    *join = *std::move(made);
  }
  return {};
}

Result<void> GroupMapper::check_joinable(const Work& work) const {
  const auto others = [&](Dims shape) {
    if (work.rule.dim < shape.rank()) shape[work.rule.dim] = 0;
    return shape;
  };
  std::int64_t total = 0;
  for (std::size_t part = 0; part < work.parts.size(); ++part) {
    const TensorInfo& tensor = tensor_of(*work.grid[part]);
    const TensorInfo& first = tensor_of(*work.grid.front());
    if (others(work.parts[part]) != others(work.parts.front()))
      return error(
          work, fmt::format("tensors '{}' of shape {} and '{}' of shape {} cannot be joined along dimension {}",
                            first.name, to_string(first.shape), tensor.name, to_string(tensor.shape), work.rule.dim));
    const auto sum = checked_add(total, work.parts[part][work.rule.dim]);
    if (!sum) return out_of_range(fmt::format("tensors {} are too large to be joined", names_text(work)));
    total = *sum;
  }
  return {};
}

std::string GroupMapper::names_text(const Work& work) const {
  std::string text;
  for (std::size_t slot = 0; slot < work.source.names.size(); ++slot)
    text += fmt::format("{}'{}'", slot == 0 ? "" : ", ", tensor_of(*work.grid[slot]).name);
  return text;
}

std::string GroupMapper::sizes_text(const MapRule& rule) const {
  std::vector<std::string> known;
  const auto add = [&](const Size& size) {
    if (size.name.empty()) return;
    const auto value = value_of(size);
    std::string text = fmt::format("{} {}", size.name, value ? *value : 0);
    if (value && std::find(known.begin(), known.end(), text) == known.end()) known.push_back(std::move(text));
  };
  for (const Size& width : rule.widths) add(width);
  for (const MapSide& side : rule.sides) add(side.blocks);
  return known.empty() ? "" : fmt::format(" ({})", fmt::join(known, ", "));
}

}  // namespace tenplex
