// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/round.h"

#include <algorithm>

namespace tenplex {
namespace {

constexpr std::int64_t kUsualWindowBytes = 1 << 20;

// Tensors up to this size share a task, up to so many bytes and tensors.
constexpr std::int64_t kTinyTensorBytes = 128 << 10;
constexpr std::int64_t kBatchBytes = 1 << 20;
constexpr std::size_t kBatchTensors = 512;

// Ranges of an array beyond this would leave one thread with all the work.
constexpr std::int64_t kUsualRangeBytes = 16 << 20;

bool is_tiny(const ReadPlan& plan) {
  if (!plan.grid) return true;  // an empty tensor
  return plan.bytes <= kTinyTensorBytes && plan.comparisons.empty() && plan.grid->count() == 1;
}

}  // namespace

Result<void> Round::plan(std::span<const TensorId> tensors) {
  const std::int64_t most = context_.slots.window_bytes();
  const WindowLimits limits{std::min(kUsualWindowBytes, most), most};
  plans_.resize(tensors.size());
  return context_.executor.for_each(
      static_cast<std::int64_t>(tensors.size()),
      [&](std::int64_t i) -> Result<void> {
        const auto index = static_cast<std::size_t>(i);
        TENPLEX_ASSIGN_OR_RETURN(plans_[index], plan_tensor(context_.reader, context_.source, context_.target,
                                                            context_.layout, tensors[index], limits));
        return {};
      },
      context_.progress.stop());
}

void Round::add_ranges(std::size_t plan, std::size_t array, std::int64_t size, std::int64_t most,
                       std::int64_t alignment) {
  const std::int64_t step = std::max(alignment, most / alignment * alignment);
  for (std::int64_t begin = 0; begin < size; begin += step)
    tasks_.push_back({Task::Kind::kRange, plan, 0, begin, array, std::min(size, begin + step)});
}

void Round::add_tasks_of(std::size_t index) {
  const ReadPlan& plan = plans_[index];
  for (std::size_t i = 0; i < plan.comparisons.size(); ++i)
    tasks_.push_back({Task::Kind::kComparison, index, 0, static_cast<std::int64_t>(i), 0, 0});
  if (!plan.grid) return;
  bool any_ordered = false;
  for (std::size_t array = 0; array < plan.arrays.size(); ++array) {
    any_ordered = any_ordered || !plan.arrays[array].scattered;
    if (!plan.arrays[array].scattered) continue;
    add_ranges(index, array, plan.arrays[array].output->size_bytes,
               std::min(kUsualRangeBytes, context_.slots.window_bytes()), plan.unit.target_bytes);
  }
  if (!any_ordered) return;
  for (std::int64_t window = 0; window < plan.grid->count(); ++window)
    tasks_.push_back({Task::Kind::kWindow, index, 0, window, 0, 0});
}

void Round::make_tasks() {
  for (std::size_t begin = 0; begin < plans_.size();) {
    std::size_t end = begin;
    for (std::int64_t bytes = 0; end < plans_.size() && end - begin < kBatchTensors && is_tiny(plans_[end]); ++end) {
      bytes += plans_[end].bytes;
      if (bytes > std::min(kBatchBytes, context_.slots.window_bytes())) break;
    }
    if (end > begin + 1) {
      tasks_.push_back({Task::Kind::kTensors, begin, end, 0, 0, 0});
      begin = end;
    } else {
      add_tasks_of(begin++);
    }
  }
}

Result<void> Round::run_tasks() {
  return context_.executor.for_each(
      static_cast<std::int64_t>(tasks_.size()),
      [&](std::int64_t i) { return run(tasks_[static_cast<std::size_t>(i)]); }, context_.progress.stop());
}

Result<void> Round::run(const Task& task) {
  const Slots::Lease slot(context_.slots);
  const ReadPlan& plan = plans_[task.plan];
  switch (task.kind) {
    case Task::Kind::kTensors:
      return run_tensors(task, *slot);
    case Task::Kind::kRange:
      return run_range(task, *slot);
    case Task::Kind::kComparison: {
      const PlannedComparison& pair = plan.comparisons[static_cast<std::size_t>(task.index)];
      return context_.chunks.compare(plan.tensor, plan.unit, pair.box, pair.first_shard, pair.second_shard,
                                     slot->window, {slot->scratch, slot->compare});
    }
    case Task::Kind::kWindow:
      break;
  }
  const PlannedWindow window{&plan, task.index};
  TENPLEX_TRY(mover_.move_windows({&window, 1}, *slot));
  context_.progress.add(volume(plan.grid->window(task.index)) * plan.unit.target_bytes);
  return {};
}

Result<void> Round::run_tensors(const Task& task, const Slot& slot) {
  std::vector<PlannedWindow> windows;
  std::int64_t bytes = 0;
  for (std::size_t i = task.plan; i < task.plan_end; ++i) {
    windows.push_back({&plans_[i], 0});
    bytes += plans_[i].bytes;
    // A tiny array is one range.
    for (std::size_t array = 0; array < plans_[i].arrays.size(); ++array) {
      const PlannedArray& planned = plans_[i].arrays[array];
      if (!planned.scattered) continue;
      TENPLEX_TRY(mover_.move_range({&plans_[i], 1}, array, 0, planned.output->size_bytes, slot));
    }
  }
  TENPLEX_TRY(mover_.move_windows(windows, slot));
  context_.progress.add(bytes);
  return {};
}

Result<void> Round::run_range(const Task& task, const Slot& slot) {
  const std::size_t count = storage_ ? plans_.size() : 1;
  const std::span<const ReadPlan> plans(plans_.data() + task.plan, count);
  TENPLEX_TRY(mover_.move_range(plans, task.array, task.index, task.end, slot));
  if (overlapping_) TENPLEX_TRY(mover_.compare_range(plans, task.array, task.index, task.end, slot));
  context_.progress.add(task.end - task.index);
  return {};
}

Result<void> Round::write_padding() {
  for (const ReadPlan& plan : plans_) {
    for (const PlannedArray& array : plan.arrays)
      if (array.has_padding && !array.scattered) TENPLEX_TRY(context_.output.write_padding(*array.output));
  }
  return {};
}

Result<std::int64_t> Round::move_tensors(const RoundContext& context, std::span<const TensorId> tensors) {
  Round round(context);
  TENPLEX_TRY(round.plan(tensors));
  round.make_tasks();
  TENPLEX_TRY(round.run_tasks());
  TENPLEX_TRY(round.write_padding());
  return static_cast<std::int64_t>(round.tasks_.size());
}

Result<std::int64_t> Round::move_storage(const RoundContext& context, const OutputArray& storage) {
  Round round(context);
  TENPLEX_ASSIGN_OR_RETURN(StoragePlan plan, plan_storage(context.reader, context.source, context.target, storage,
                                                          context.layout.views(storage)));
  round.plans_ = std::move(plan.views);
  round.storage_ = true;
  if (round.plans_.empty()) {
    TENPLEX_TRY(context.output.write_padding(storage));
    return 0;
  }
  round.overlapping_ = plan.overlapping;
  for (std::size_t i = 0; i < round.plans_.size(); ++i) round.add_tasks_of(i);  // comparisons only: there is no grid
  // Overlapping views are compared in the second half of the window memory.
  const std::int64_t most = std::min(kUsualRangeBytes, context.slots.window_bytes() / (plan.overlapping ? 2 : 1));
  round.add_ranges(0, 0, storage.size_bytes, most, plan.alignment);
  TENPLEX_TRY(round.run_tasks());
  return static_cast<std::int64_t>(round.tasks_.size());
}

}  // namespace tenplex
