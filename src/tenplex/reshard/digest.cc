// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/reshard/reshard.h"
#include "tenplex/reshard/scan.h"
#include "tenplex/reshard/scan_run.h"

namespace tenplex {
namespace {

/// Index of the first element of a box that is one run of the flattened tensor.
std::int64_t flat_index(const ReadPlan& plan, const Dims& shape, const Box& box) {
  const Dims strides = row_major_strides(shape);
  std::int64_t index = 0;
  for (int dim = 0; dim < box.rank(); ++dim) {
    const bool inner = dim == box.rank() - 1;
    index += box.offset[dim] * (inner ? plan.unit.elements : 1) * strides[dim];
  }
  return index;
}

}  // namespace

Result<std::vector<Digest>> digest_tensors(const CheckpointReader& checkpoint, const DigestOptions& options,
                                           Executor& executor, Progress& progress) {
  TENPLEX_TRY(checkpoint.check_files(progress));
  TENPLEX_ASSIGN_OR_RETURN(const auto collection, SourceCollection::build(checkpoint.info()));
  const std::span<const TensorInfo> tensors = checkpoint.info().tensors;
  std::vector<Guarded<Digest>> sums(tensors.size());
  ItemLedger ledger(checkpoint);
  ChunkReader reader(checkpoint, *collection, ledger);
  TENPLEX_TRY(check_memory_limit(options.max_memory_bytes));
  MemoryBudget budget(options.max_memory_bytes);
  TENPLEX_ASSIGN_OR_RETURN(const auto slots,
                           Slots::allocate(budget, {executor.thread_count(), false, collection->has_copies()}));
  std::int64_t total = 0;
  for (const TensorInfo& tensor : tensors) total += size_bytes(tensor);
  progress.start_phase("digest", total);
  const std::int64_t most = slots->window_bytes();
  const WindowLimits limits{std::min(kScanWindowBytes, most), most};
  const auto cost = [&](std::size_t t) { return 1 + collection->shard_count(TensorId(t)); };
  const auto plan = [&](std::size_t t) -> Result<Scan> {
    TENPLEX_ASSIGN_OR_RETURN(Scan scan, Scan::plan(checkpoint, *collection, TensorId(t), tensors[t].dtype, limits));
    const Slots::Lease slot(*slots);
    TENPLEX_TRY(scan.compare_overlaps(reader, *slot));
    return scan;
  };
  const auto add_window = [&](std::size_t t, const Scan& scan, std::int64_t window) -> Result<void> {
    const Slots::Lease slot(*slots);
    const Box box = scan.window(window);
    TENPLEX_TRY(scan.read(box, slot->window.data(), reader, *slot));
    const auto bytes = static_cast<std::size_t>(volume(box) * scan.read_plan().unit.source_bytes);
    const Digest digest =
        digest_of_run(tensors[t].dtype, flat_index(scan.read_plan(), tensors[t].shape, box), slot->window.first(bytes));
    *sums[t].lock() += digest;
    progress.add(static_cast<std::int64_t>(bytes));
    return {};
  };
  TENPLEX_TRY(for_each_window(
      executor, progress, tensors.size(), cost, plan, [](const Scan& scan) { return scan.window_count(); },
      add_window));
  std::int64_t bytes_read = 0;
  TENPLEX_TRY(ledger.complete_small_gaps(&bytes_read));
  TENPLEX_TRY(checkpoint.check_unchanged());
  std::vector<Digest> digests;
  digests.reserve(tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t)
    digests.push_back(*sums[t].lock() + digest_of_header(tensors[t].dtype, tensors[t].shape));
  return digests;
}

}  // namespace tenplex
