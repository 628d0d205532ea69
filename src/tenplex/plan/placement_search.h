// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the target ranks should run: the placement with the idlest busiest link, then the fewest bytes.
//
//   rank order   w0: stage 0, first half   w1: stage 0, second half   w2, w3: stage 1   one worker sends half the state
//   placed       w0: stage 0, first half   w2: stage 0, second half   w1, w3: stage 1   two workers send a quarter each
//
// Only placements are compared in which every tensor-parallel group spans as few workers as its size allows. Devices of
// a worker are interchangeable, and so are workers that are alike and groups that hold the same (data-parallel
// replicas). What is left is searched in full if it is at most max_assignments and soon counted; otherwise a
// deterministic heuristic fills the workers greedily by what they hold and then exchanges parts that load the busiest
// link while that helps.
//
// The cost counts, per target shard and worker, what the worker lacks, sent by the holders in proportion to their
// links. Pure function, deterministic. Threads: any.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tenplex/plan/plan.h"

namespace tenplex {

enum class PlacementPolicy : std::uint8_t {
  kKeep,       ///< search, as above
  kRankOrder,  ///< rank i on the i-th usable slot
};
std::string_view to_string(PlacementPolicy policy);
/// "keep" or "rank-order". Errors: invalid_argument.
Result<PlacementPolicy> parse_placement_policy(std::string_view name);

struct PlacementRequest {
  const Collection* source = nullptr;
  const Collection* target = nullptr;
  const Topology* topology = nullptr;
  std::vector<int> source_slots;                 ///< slot of every source rank
  std::vector<int> usable_slots;                 ///< where target ranks may run, ascending; empty = all
  std::vector<std::vector<DeviceId>> tp_groups;  ///< target ranks by group, all of them; empty = one each
  PlacementPolicy policy = PlacementPolicy::kKeep;
  std::int64_t max_assignments = 1'000'000;  ///< searched in full up to here
  int max_exchange_rounds = 8;               ///< of the heuristic
};

struct PlacementResult {
  Placement placement;
  PlacementPolicy policy = PlacementPolicy::kKeep;
  bool exhaustive = false;       ///< all distinct assignments were compared
  std::int64_t assignments = 0;  ///< distinct ones, if exhaustive
  bool keeps_groups = false;     ///< only assignments were looked at that do not spread a group of several ranks
  double busiest_seconds = 0;    ///< of the chosen placement, by the cost above
  double bytes = 0;              ///< over the network
  double bound_seconds = 0;      ///< no placement has a less busy busiest link
  double ratio() const { return bound_seconds > 0 ? busiest_seconds / bound_seconds : busiest_seconds > 0 ? 0 : 1; }
};

/// Errors: invalid_argument if there are fewer usable slots than target ranks, the groups are not a partition of the
/// ranks, or the collections do not match.
Result<PlacementResult> place(const PlacementRequest& request);

}  // namespace tenplex
