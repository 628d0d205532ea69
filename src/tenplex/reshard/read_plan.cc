// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/read_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tenplex/plan/check_fills.h"
#include "tenplex/reshard/stored_box.h"

namespace tenplex {
namespace {

using Kind = OutputArray::Kind;

// Reads and writes of a window are at least about this long where the memory allows it.
constexpr std::int64_t kGoodRunBytes = 32 << 10;
// An array that gets shorter runs than this from a window is filled in its own order instead.
constexpr std::int64_t kTinyRunBytes = 2 << 10;

ReadPlan start_plan(const TensorInfo& source, DType target_dtype, TensorId tensor) {
  ReadPlan plan;
  plan.tensor = tensor;
  plan.unit = Unit::of(source.dtype, target_dtype);
  plan.source_dtype = source.dtype;
  plan.target_dtype = target_dtype;
  return plan;
}

Result<Box> whole_in_units(const ReadPlan& plan, const Dims& shape) { return in_units(plan.unit, Box::whole(shape)); }

Result<void> add_array(const SourceCollection& source, const SourceIndex& index, const SubTensor& array,
                       const OutputArray* output, ReadPlan* plan) {
  PlannedArray planned;
  planned.output = output;
  planned.first_copy = static_cast<std::uint32_t>(plan->copies.size());
  std::vector<Fill> fills;
  TENPLEX_TRY(index.fill(array, &fills));
  TENPLEX_TRY(check_fills(source, plan->tensor, array, fills));
  std::int64_t bytes = 0;
  for (const Fill& fill : fills) {
    PlannedCopy copy;
    copy.array = static_cast<std::uint32_t>(plan->arrays.size());
    copy.shard = fill.source_shard;
    TENPLEX_ASSIGN_OR_RETURN(copy.box, in_units(plan->unit, fill.target.box));
    if (copy.box.empty()) continue;
    TENPLEX_ASSIGN_OR_RETURN(copy.local, in_bytes(plan->unit, plan->unit.target_bytes, copy.box.extent,
                                                  fill.target.local_offset, fill.target.local_strides));
    const std::int64_t end =
        copy.local.offset + span_bytes(copy.box.extent, copy.local.strides, plan->unit.target_bytes);
    if (output != nullptr && (copy.local.offset < 0 || end > output->size_bytes)) {
      return internal_error(fmt::format("box {} lies outside its shard", to_string(copy.box)));
    }
    bytes += volume(copy.box) * plan->unit.target_bytes;
    plan->copies.push_back(std::move(copy));
  }
  planned.copy_count = static_cast<std::uint32_t>(plan->copies.size()) - planned.first_copy;
  planned.has_padding = output != nullptr && bytes < output->size_bytes;
  plan->arrays.push_back(planned);
  return {};
}

SubTensor sub_tensor_of(const OutputArray& array, const Collection& target) {
  if (array.kind == Kind::kWhole) return whole_tensor(target.tensors()[array.tensor.index()].shape);
  SubTensor shard;
  target.shard(array.tensor, array.shard, &shard);
  if (array.kind == Kind::kPiece) return sub_tensor_of_box(shard.pieces[static_cast<std::size_t>(array.piece)].box);
  return shard;
}

Result<void> add_comparisons(const SourceCollection& source, const SourceIndex& index, ReadPlan* plan) {
  if (!source.has_overlaps(plan->tensor)) return {};
  SubTensor shard;
  std::vector<Fill> fills;
  for (std::int64_t i = 0; i < source.shard_count(plan->tensor); ++i) {
    source.shard(plan->tensor, i, &shard);
    TENPLEX_TRY(index.fill(shard, &fills));
    for (const Fill& fill : fills) {
      if (fill.source_shard == i) continue;
      TENPLEX_ASSIGN_OR_RETURN(Box box, in_units(plan->unit, fill.source.box));
      if (!box.empty()) plan->comparisons.push_back({fill.source_shard, i, std::move(box)});
    }
  }
  return {};
}

// True if a window of the tensor is no run of the stored chunk, as in a transposed view.
Result<bool> is_stored_scattered(const CheckpointReader& reader, const SourceCollection& source, const ReadPlan& plan) {
  const PlannedCopy& copy = plan.copies.front();
  TENPLEX_ASSIGN_OR_RETURN(const StoredBox stored,
                           locate_box(reader, source.copies(plan.tensor, copy.shard).front(), plan.unit, copy.box));
  std::int64_t smallest = INT64_MAX;
  for (int dim = stored.extent.rank() - 1; dim >= 0; --dim) {
    if (stored.extent[dim] <= 1) continue;
    if (smallest == INT64_MAX && stored.file_strides[dim] > 4 * plan.unit.source_bytes) return true;
    if (smallest != INT64_MAX && stored.file_strides[dim] < smallest) return true;
    smallest = stored.file_strides[dim];
  }
  return false;
}

void index_windows(ReadPlan* plan) {
  const std::size_t count = plan->copies.size();
  plan->by_first_window.resize(count);
  std::iota(plan->by_first_window.begin(), plan->by_first_window.end(), 0U);
  std::vector<std::int64_t> first(count);
  for (std::size_t i = 0; i < count; ++i) first[i] = plan->grid->first_of(plan->copies[i].box);
  std::sort(plan->by_first_window.begin(), plan->by_first_window.end(),
            [&](std::uint32_t a, std::uint32_t b) { return first[a] != first[b] ? first[a] < first[b] : a < b; });
  plan->first_window.clear();
  plan->last_window_so_far.clear();
  std::int64_t last = -1;
  for (const std::uint32_t i : plan->by_first_window) {
    plan->first_window.push_back(first[i]);
    last = std::max(last, plan->grid->last_of(plan->copies[i].box));
    plan->last_window_so_far.push_back(last);
  }
}

Result<void> choose_windows(const CheckpointReader& reader, const SourceCollection& source, const Dims& shape,
                            const WindowLimits& limits, ReadPlan* plan) {
  TENPLEX_ASSIGN_OR_RETURN(const Box whole, whole_in_units(*plan, shape));
  const std::int64_t unit_bytes = std::max(plan->unit.source_bytes, plan->unit.target_bytes);
  plan->bytes = volume(whole) * unit_bytes;
  if (plan->copies.empty()) return {};
  if (plan->bytes <= std::min(limits.usual_bytes, limits.most_bytes)) {  // one window, however it is stored
    plan->grid.emplace(whole, std::max<std::int64_t>(1, plan->bytes / unit_bytes));
    index_windows(plan);
    return {};
  }
  TENPLEX_ASSIGN_OR_RETURN(const bool scattered, is_stored_scattered(reader, source, *plan));
  std::int64_t bytes = scattered ? limits.most_bytes : std::min(limits.usual_bytes, limits.most_bytes);
  plan->grid.emplace(whole, std::max<std::int64_t>(1, bytes / unit_bytes));
  index_windows(plan);
  if (scattered) return {};
  // Many runs per window: take larger windows, so that each run stays long enough.
  std::vector<std::uint32_t> met;
  plan->copies_of_windows(plan->grid->count() / 2, plan->grid->count() / 2, &met);
  const std::int64_t wanted = static_cast<std::int64_t>(met.size()) * kGoodRunBytes;
  if (wanted <= bytes || bytes == limits.most_bytes) return {};
  bytes = std::min(wanted, limits.most_bytes);
  plan->grid.emplace(whole, std::max<std::int64_t>(1, bytes / unit_bytes));
  index_windows(plan);
  return {};
}

// Longest contiguous run of a box in its array, bytes.
std::int64_t run_bytes(const Dims& extent, const Dims& strides, std::int64_t unit_bytes) {
  std::int64_t run = unit_bytes;
  for (int dim = extent.rank() - 1; dim >= 0; --dim) {
    if (extent[dim] == 1) continue;
    if (strides[dim] != run) break;
    run *= extent[dim];
  }
  return run;
}

// Looks at the window in the middle of each array's copies: does it hit the array in one run, or in many tiny ones?
void find_scattered_arrays(ReadPlan* plan) {
  for (PlannedArray& array : plan->arrays) {
    if (array.copy_count == 0) continue;
    const std::span<const PlannedCopy> copies(plan->copies.data() + array.first_copy, array.copy_count);
    const Box& sample = copies[copies.size() / 2].box;
    const Box window = plan->grid->window((plan->grid->first_of(sample) + plan->grid->last_of(sample)) / 2);
    std::int64_t begin = INT64_MAX;
    std::int64_t end = 0;
    std::int64_t bytes = 0;
    std::int64_t shortest = INT64_MAX;
    for (const PlannedCopy& copy : copies) {
      const auto common = intersect(copy.box, window);
      if (!common) continue;
      const std::int64_t offset = copy.local.offset + offset_of(common->offset, copy.box.offset, copy.local.strides);
      const Dims& strides = copy.local.strides;
      begin = std::min(begin, offset);
      end = std::max(end, offset + span_bytes(common->extent, strides, plan->unit.target_bytes));
      bytes += volume(*common) * plan->unit.target_bytes;
      shortest = std::min(shortest, run_bytes(common->extent, strides, plan->unit.target_bytes));
    }
    array.scattered = bytes != end - begin && shortest < kTinyRunBytes;
  }
}

}  // namespace

void ReadPlan::copies_of_windows(std::int64_t first, std::int64_t last, std::vector<std::uint32_t>* indexes) const {
  indexes->clear();
  const auto end = std::upper_bound(first_window.begin(), first_window.end(), last) - first_window.begin();
  for (auto i = end - 1; i >= 0 && last_window_so_far[static_cast<std::size_t>(i)] >= first; --i)
    indexes->push_back(by_first_window[static_cast<std::size_t>(i)]);
  std::sort(indexes->begin(), indexes->end());
}

Result<ReadPlan> plan_tensor(const CheckpointReader& reader, const SourceCollection& source, const Collection& target,
                             const OutputLayout& layout, TensorId tensor, const WindowLimits& limits) {
  const TensorInfo& info = source.tensors()[tensor.index()];
  ReadPlan plan = start_plan(info, target.tensors()[tensor.index()].dtype, tensor);
  const SourceIndex index(source, tensor);
  for (const OutputArray& array : layout.arrays_of(tensor)) {
    if (auto added = add_array(source, index, sub_tensor_of(array, target), &array, &plan); !added)
      return std::move(added).error().with_context(fmt::format("tensor '{}'", info.name));
  }
  TENPLEX_TRY(add_comparisons(source, index, &plan));
  TENPLEX_TRY(choose_windows(reader, source, info.shape, limits, &plan));
  if (plan.grid) find_scattered_arrays(&plan);
  return plan;
}

Result<ReadPlan> plan_view(const SourceCollection& source, const Collection& target, const OutputArray& storage,
                           const StorageView& view) {
  const TensorInfo& info = source.tensors()[view.tensor.index()];
  ReadPlan plan = start_plan(info, target.tensors()[view.tensor.index()].dtype, view.tensor);
  SubTensor array;
  array.pieces.push_back({Box::whole(info.shape), view.offset, view.strides});
  const SourceIndex index(source, view.tensor);
  TENPLEX_TRY(add_array(source, index, array, &storage, &plan).with_context(fmt::format("tensor '{}'", info.name)));
  TENPLEX_TRY(add_comparisons(source, index, &plan));
  return plan;
}

Result<ReadPlan> plan_scan(const CheckpointReader& reader, const SourceCollection& source, TensorId tensor,
                           DType target, const WindowLimits& limits) {
  const TensorInfo& info = source.tensors()[tensor.index()];
  ReadPlan plan = start_plan(info, target, tensor);
  const SourceIndex index(source, tensor);
  TENPLEX_TRY(add_array(source, index, whole_tensor(info.shape), nullptr, &plan));
  TENPLEX_TRY(add_comparisons(source, index, &plan));
  TENPLEX_TRY(choose_windows(reader, source, info.shape, limits, &plan));
  return plan;
}

}  // namespace tenplex
