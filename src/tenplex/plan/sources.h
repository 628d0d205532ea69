// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which holder of a source shard sends a box to which worker. A rule that every worker evaluates alone, with equal
// results.
//
//   1. Only holders near the receiver are asked, if there are any.
//   2. Holders take turns (turns.h), in proportion to their outgoing bandwidth. All pulls of one source shard, over the
//      target shards that need it, the workers that need those, and the tensors of the group, are numbered
//      consecutively; pull n of shard s of group g is turn g + s + n.
//   3. A box whose turns do not come out even is divided instead if it is large or takes long: every holder sends a
//      slice of a dimension that is in proportion to its bandwidth.
//
// Threads: one at a time (numbers are computed on first use).
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "tenplex/plan/plan.h"
#include "tenplex/plan/shard_list.h"
#include "tenplex/plan/turns.h"

namespace tenplex {

/// One tensor cut in two ways, and its holders; shared by the tensors of a group.
struct CutPair {
  std::int64_t group = 0;         ///< number of the group
  std::size_t tensors = 1;        ///< in the group
  DType dtype = DType::kFloat32;  ///< of the tensors
  const ShardList* source = nullptr;
  const HolderList* source_holders = nullptr;
  const ShardList* target = nullptr;
  const HolderList* target_holders = nullptr;
};

/// A part of a box and who sends it.
struct Slice {
  Box box;
  Holder holder;                  ///< for the first tensor of the group
  std::vector<Holder> by_tensor;  ///< for every tensor, if they differ
};

class SourceChooser {
 public:
  /// Borrows all for its life.
  SourceChooser(const PlanInput& input, const CutPair& cut);

  /// Replaces `*slices` by a disjoint cover of `box`, a part of source shard `source` and target shard `target`.
  /// Requires: kFull, or no device of `receiver` holds the source shard.
  void choose(WorkerId receiver, std::int64_t source, std::int64_t target, const Box& box, std::int64_t bytes,
              std::vector<Slice>* slices);

 private:
  struct Pull {
    std::int64_t target;
    WorkerId receiver;
    int scope;             // group of workers in which turns are taken; −1: those that have no holder near
    std::int64_t ordinal;  // in the scope
  };
  struct Pulls {
    std::vector<Pull> list;             // ascending by (target, receiver)
    std::map<int, std::int64_t> count;  // per scope
    bool even = true;                   // every target needs the same number of elements
  };

  const Pulls& pulls_of(std::int64_t source);
  Pulls number_pulls(std::int64_t source) const;
  bool near_holder(std::int64_t source, WorkerId receiver) const;
  void find_candidates(WorkerId receiver, std::int64_t source);
  bool is_worth_dividing(std::int64_t bytes) const;
  void divide(const Box& box, int dim, std::int64_t first, std::vector<Slice>* slices);

  const PlanInput& input_;
  const CutPair& cut_;
  std::unordered_map<std::int64_t, Pulls> pulls_;
  std::vector<Holder> candidates_;
  std::vector<std::int64_t> bandwidths_;  // of the candidates, outgoing
  Turns turns_;                           // among the candidates
};

}  // namespace tenplex
