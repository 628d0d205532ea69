// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/placement.h"

#include <fmt/format.h>

#include <numeric>
#include <string_view>

namespace tenplex {
namespace {

Result<void> check_slots(const std::vector<int>& slots, int devices, const Topology& topology, std::string_view mesh) {
  if (slots.size() != static_cast<std::size_t>(devices))
    return invalid_argument(
        fmt::format("placement: expected {} slots for the {} mesh, found {}", devices, mesh, slots.size()));
  std::vector<bool> used(static_cast<std::size_t>(topology.slot_count()));
  for (std::size_t rank = 0; rank < slots.size(); ++rank) {
    const int slot = slots[rank];
    if (slot < 0 || slot >= topology.slot_count())
      return invalid_argument(fmt::format("placement: {} rank {} is on slot {}, but the topology has {} slots", mesh,
                                          rank, slot, topology.slot_count()));
    if (used[static_cast<std::size_t>(slot)])
      return invalid_argument(fmt::format("placement: two {} ranks are on slot {}", mesh, slot));
    used[static_cast<std::size_t>(slot)] = true;
  }
  return {};
}

}  // namespace

Placement Placement::rank_order(int source_devices, int target_devices) {
  Placement placement;
  placement.source_slots.resize(static_cast<std::size_t>(source_devices));
  placement.target_slots.resize(static_cast<std::size_t>(target_devices));
  std::iota(placement.source_slots.begin(), placement.source_slots.end(), 0);
  std::iota(placement.target_slots.begin(), placement.target_slots.end(), 0);
  return placement;
}

Result<void> check_placement(const Placement& placement, const Collection& source, const Collection& target,
                             const Topology& topology) {
  TENPLEX_TRY(check_slots(placement.source_slots, source.device_count(), topology, "source"));
  return check_slots(placement.target_slots, target.device_count(), topology, "target");
}

Hash128 roster_hash(const Topology& topology, const Placement& placement) {
  Hasher hasher;
  const Hash128 workers = topology.hash();
  hasher.add(static_cast<std::int64_t>(workers.high));
  hasher.add(static_cast<std::int64_t>(workers.low));
  for (const std::vector<int>* slots : {&placement.source_slots, &placement.target_slots}) {
    hasher.add(static_cast<std::int64_t>(slots->size()));
    for (const int slot : *slots) hasher.add(slot);
  }
  return hasher.finish();
}

}  // namespace tenplex
