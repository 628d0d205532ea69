// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Round: the read plans of some consecutive tensors, and the units of work that carry them out in parallel.
//
//   tensors, in file order ─► rounds ─► plans (in parallel) ─► tasks (in parallel) ─► plans dropped
//
// A round is long enough to keep every thread busy and short enough to keep its plans small. Tiny tensors share a task,
// so that neighbours in a file become one read and one write.
//
// Resource. Threads: one; it uses the executor's.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/base/executor.h"
#include "tenplex/base/progress.h"
#include "tenplex/reshard/mover.h"
#include "tenplex/reshard/storage_plan.h"

namespace tenplex {

/// What all rounds of one run share.
struct RoundContext {
  const CheckpointReader& reader;
  const SourceCollection& source;
  const Collection& target;
  const OutputLayout& layout;
  ChunkReader& chunks;
  OutputFiles& output;
  Slots& slots;
  Executor& executor;
  Progress& progress;
};

class Round {
 public:
  /// Plans, reads and writes the arrays of `tensors`. Errors: those of planning, reading and writing.
  static Result<std::int64_t> move_tensors(const RoundContext& context, std::span<const TensorId> tensors);

  /// The same for one shared storage. Both return the number of tasks.
  static Result<std::int64_t> move_storage(const RoundContext& context, const OutputArray& storage);

 private:
  struct Task {
    enum class Kind : std::uint8_t { kTensors, kWindow, kRange, kComparison };
    Kind kind = Kind::kWindow;
    std::size_t plan = 0;      // first one of kTensors
    std::size_t plan_end = 0;  // kTensors
    std::int64_t index = 0;    // of the window, the comparison, or the first byte of the range
    std::size_t array = 0;     // kRange
    std::int64_t end = 0;      // kRange
  };

  explicit Round(const RoundContext& context) : context_(context), mover_(context.chunks, context.output) {}
  Result<void> plan(std::span<const TensorId> tensors);
  void make_tasks();
  void add_tasks_of(std::size_t plan);
  void add_ranges(std::size_t plan, std::size_t array, std::int64_t size, std::int64_t most, std::int64_t alignment);
  Result<void> run_tasks();
  Result<void> run(const Task& task);
  Result<void> run_tensors(const Task& task, const Slot& slot);
  Result<void> run_range(const Task& task, const Slot& slot);
  Result<void> write_padding();

  const RoundContext& context_;
  Mover mover_;
  std::vector<ReadPlan> plans_;
  std::vector<Task> tasks_;
  bool storage_ = false;      // all plans are views of one storage
  bool overlapping_ = false;  // and share bytes of it
};

}  // namespace tenplex
