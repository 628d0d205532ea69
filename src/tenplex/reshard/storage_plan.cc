// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/storage_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "tenplex/reshard/stored_box.h"

namespace tenplex {
namespace {

/// What a view takes of the storage, and where in the source the very same bytes lie, shifted by `distance`.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool dense = false;
  std::optional<std::pair<std::int32_t, std::int64_t>> image;  // file, distance
};

bool same_steps(const Dims& extent, const Dims& a, const Dims& b) {
  for (int dim = 0; dim < extent.rank(); ++dim)
    if (extent[dim] > 1 && a[dim] != b[dim]) return false;
  return true;
}

Result<Extent> extent_of(const CheckpointReader& reader, const SourceCollection& source, const ReadPlan& plan) {
  Extent extent{INT64_MAX, 0, false, std::nullopt};
  std::int64_t bytes = 0;
  bool is_image = !plan.casts();
  for (const PlannedCopy& copy : plan.copies) {
    extent.begin = std::min(extent.begin, copy.local.offset);
    extent.end = std::max(extent.end,
                          copy.local.offset + span_bytes(copy.box.extent, copy.local.strides, plan.unit.target_bytes));
    bytes += volume(copy.box) * plan.unit.target_bytes;
    const auto copies = source.copies(plan.tensor, copy.shard);
    is_image = is_image && copies.size() == 1;
    if (!is_image) continue;
    TENPLEX_ASSIGN_OR_RETURN(const StoredBox stored, locate_box(reader, copies.front(), plan.unit, copy.box));
    const std::pair place{stored.file, stored.position - copy.local.offset};
    is_image = same_steps(copy.box.extent, stored.file_strides, copy.local.strides) &&
               (!extent.image || *extent.image == place);
    extent.image = place;
  }
  if (!is_image) extent.image.reset();
  extent.dense = bytes == extent.end - extent.begin;
  return extent;
}

bool brings_along(const Extent& kept, const Extent& other) {
  return kept.dense && kept.image && kept.image == other.image && kept.begin <= other.begin && other.end <= kept.end;
}

}  // namespace

Result<StoragePlan> plan_storage(const CheckpointReader& reader, const SourceCollection& source,
                                 const Collection& target, const OutputArray& storage,
                                 std::span<const StorageView> in_storage) {
  StoragePlan result;
  std::vector<std::pair<ReadPlan, Extent>> views;
  for (const StorageView& view : in_storage) {
    TENPLEX_ASSIGN_OR_RETURN(ReadPlan plan, plan_view(source, target, storage, view));
    result.alignment = std::lcm(result.alignment, plan.unit.target_bytes);
    if (plan.copies.empty()) continue;
    TENPLEX_ASSIGN_OR_RETURN(const Extent extent, extent_of(reader, source, plan));
    views.emplace_back(std::move(plan), extent);
  }
  std::sort(views.begin(), views.end(), [](const auto& a, const auto& b) {
    const std::int64_t a_length = a.second.end - a.second.begin;
    const std::int64_t b_length = b.second.end - b.second.begin;
    return a_length != b_length ? a_length > b_length : a.second.begin < b.second.begin;
  });
  std::vector<Extent> kept;
  for (auto& [plan, extent] : views) {
    const bool redundant = std::any_of(kept.begin(), kept.end(),
                                       [&, &other = extent](const Extent& one) { return brings_along(one, other); });
    if (redundant) continue;
    for (const Extent& one : kept)
      result.overlapping = result.overlapping || (one.begin < extent.end && extent.begin < one.end);
    kept.push_back(extent);
    result.views.push_back(std::move(plan));
  }
  return result;
}

}  // namespace tenplex
