// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// GroupMapper: the tensors of one group of a naming map become the tensors of the other side. Internal to
// map_tensors().
//
// What a word of the rule is, by where the sides have it:
//
//   name → name      the same number in every tensor of the group
//   name → stack     tensors 0 … n−1 of the source become places along an axis of one target
//   stack → name     places along an axis of the source become targets 0 … n−1
//   stack → stack    an axis stays an axis
//
// Borrows all it is given. Threads: one per call of map_tensors().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/ptc/map_match.h"
#include "tenplex/ptc/part_join.h"
#include "tenplex/ptc/tensor_map.h"

namespace tenplex {

class GroupMapper {
 public:
  GroupMapper(const NamingMap& map, std::span<const TensorInfo> tensors, const NamedSizes& sizes, std::size_t from)
      : map_(map), tensors_(tensors), sizes_(sizes), from_(from) {}

  /// Appends the targets of the group with their pieces; the end of `first` is left to the caller. Errors: as
  /// map_tensors().
  Result<void> add(const MapGroup& group, TensorMap* made);

 private:
  // One group while it is worked on.
  struct Work {
    const MapGroup& group;
    const MapRule& rule;
    const MapSide& source;
    const MapSide& target;
    std::vector<std::int64_t> counts;    // per word: how many numbers it has where one side stacks it, else 1
    std::vector<const MapMember*> grid;  // source tensors: by the numbers of name → stack words, then by name
    std::vector<Dims> parts;             // shape of every part, not transposed
    PartJoin source_join;
    PartJoin target_join;
  };

  // A stretch of a part, or a whole part.
  struct Stretch {
    std::size_t part;
    Dims extent;
    PartRun run;
  };

  // group_mapper.cc: the tensors and the parts.
  Result<void> find_members(Work* work) const;
  Error missing_member(const Work& work) const;
  Result<void> find_parts(Work* work) const;
  Result<void> join_parts(Work* work) const;
  Result<void> check_joinable(const Work& work) const;
  Result<std::vector<std::int64_t>> widths_of(const MapRule& rule) const;
  Result<std::int64_t> value_of(const Size& size) const;
  std::string names_text(const Work& work) const;
  std::string sizes_text(const MapRule& rule) const;
  Error error(const Work& work, std::string_view message) const;

  // group_pieces.cc: the targets.
  Result<void> add_targets(const Work& work, TensorMap* made) const;
  Result<void> add_scalars(const Work& work, TensorMap* made) const;
  Result<void> add_scalar(const Work& work, const MapMember& kept, std::size_t slot, TensorMap* made) const;
  Result<void> add_target(const Work& work, const WordValues& values, std::size_t slot, TensorMap* made) const;
  Result<void> add_part(const Work& work, const WordValues& values, std::size_t part, TensorMap* made) const;
  Result<void> add_piece(const Work& work, const WordValues& values, const Stretch& stretch, TensorMap* made) const;
  Result<Dims> target_shape(const Work& work, std::size_t slot) const;
  Dims whole_part(const Work& work) const;
  const MapMember& member_at(const Work& work, const WordValues& values, std::size_t part) const;
  Box box_on(const MapSide& side, const Work& work, const WordValues& values, const Stretch& stretch,
             std::int64_t start) const;
  AxisMap axes_of(const Work& work, int rank) const;

  // Words.
  bool joins_names(const Work& work, std::size_t word) const;  // name → stack
  bool opens_axis(const Work& work, std::size_t word) const;   // stack → name
  bool is_stacked(const MapSide& side, const MapRule& rule, std::size_t word) const;
  std::size_t word_index(const MapRule& rule, std::string_view word) const;

  const TensorInfo& tensor_of(const MapMember& member) const { return tensors_[member.tensor.index()]; }

  const NamingMap& map_;
  std::span<const TensorInfo> tensors_;
  const NamedSizes& sizes_;
  const std::size_t from_;
};

}  // namespace tenplex
