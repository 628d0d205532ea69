// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/scan.h"

#include <utility>

namespace tenplex {

Result<Scan> Scan::plan(const CheckpointReader& checkpoint, const SourceCollection& collection, TensorId tensor,
                        DType target, const WindowLimits& limits) {
  TENPLEX_ASSIGN_OR_RETURN(ReadPlan plan, plan_scan(checkpoint, collection, tensor, target, limits));
  return Scan(std::move(plan));
}

Result<void> Scan::read(const Box& box, std::byte* memory, ChunkReader& reader, const Slot& slot) const {
  const Dims strides = contiguous_strides(box.extent, plan_.unit.target_bytes);
  std::vector<std::uint32_t> copies;
  plan_.copies_of_windows(plan_.grid->first_of(box), plan_.grid->last_of(box), &copies);
  std::vector<PlannedRead> reads;
  for (const std::uint32_t copy : copies) {
    const auto common = intersect(plan_.copies[copy].box, box);
    if (!common) continue;
    reads.push_back(
        {&plan_, plan_.copies[copy].shard, *common, memory + offset_of(common->offset, box.offset, strides), strides});
  }
  return read_planned(reader, reads, slot);
}

Result<void> Scan::compare_overlaps(ChunkReader& reader, const Slot& slot) const {
  for (const PlannedComparison& pair : plan_.comparisons) {
    TENPLEX_TRY(reader.compare(plan_.tensor, plan_.unit, pair.box, pair.first_shard, pair.second_shard, slot.window,
                               {slot.scratch, slot.compare}));
  }
  return {};
}

}  // namespace tenplex
