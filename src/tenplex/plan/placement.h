// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Placement: on which physical device (slot of the topology) every rank of the source and of the target mesh runs.
//
//   rank of the source mesh  ─┐
//                             ├─►  slot  ─►  worker         a device "holds" what the source rank on its slot holds
//   rank of the target mesh  ─┘
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/plan/topology.h"
#include "tenplex/ptc/collection.h"

namespace tenplex {

struct Placement {
  std::vector<int> source_slots;  ///< slot of every source rank
  std::vector<int> target_slots;  ///< slot of every target rank

  /// Rank i on slot i, for both meshes.
  static Placement rank_order(int source_devices, int target_devices);

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Errors: invalid_argument if the numbers of ranks differ from the collections', a slot does not exist, or two ranks
/// of one mesh share a slot.
Result<void> check_placement(const Placement& placement, const Collection& source, const Collection& target,
                             const Topology& topology);

/// Identifies topology and placement together: the roster that a plan was made for.
Hash128 roster_hash(const Topology& topology, const Placement& placement);

}  // namespace tenplex
