// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tenplex/base/counted.h"
#include "tenplex/copy/convert.h"
#include "tenplex/formats/equal_scalars.h"
#include "tenplex/formats/target_notes.h"
#include "tenplex/io/added_files.h"
#include "tenplex/io/commit.h"
#include "tenplex/io/memory_budget.h"
#include "tenplex/io/open_file_limit.h"
#include "tenplex/reshard/alias_check.h"
#include "tenplex/reshard/round.h"
#include "tenplex/reshard/space_check.h"
#include "tenplex/reshard/verify.h"

namespace tenplex {
namespace {

// A round ends when it has work for a while, or when its plans get large.
constexpr std::int64_t kRoundBytes = std::int64_t{256} << 20;
constexpr std::int64_t kRoundShards = 16 << 10;

/// Seconds since the last call.
class Clock {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Result<void> check_tensors(const CheckpointInfo& source, const Collection& target, bool cast) {
  if (source.tensors.size() != target.tensors().size()) {
    return invalid_argument(fmt::format("the target has {}, the source {}", counted(target.tensors().size(), "tensor"),
                                        source.tensors.size()));
  }
  for (std::size_t t = 0; t < source.tensors.size(); ++t) {
    const TensorInfo& from = source.tensors[t];
    const TensorInfo& to = target.tensors()[t];
    if (from.name != to.name) {
      return invalid_argument(fmt::format("tensor {}: expected '{}', found '{}'", t, from.name, to.name));
    }
    if (!(from.shape == to.shape)) {
      return invalid_argument(fmt::format("tensor '{}': shape mismatch: expected {}, found {}", from.name,
                                          to_string(from.shape), to_string(to.shape)));
    }
    TENPLEX_TRY(check_tensor(to));
    if (from.dtype == to.dtype) continue;
    if (!cast) {
      return invalid_argument(fmt::format("tensor '{}': dtype mismatch: expected {}, found {}", from.name,
                                          to_string(to.dtype), to_string(from.dtype)));
    }
    if (!can_convert(from.dtype, to.dtype)) {
      return unsupported(fmt::format("tensor '{}': no conversion from {} to {}", from.name, to_string(from.dtype),
                                     to_string(to.dtype)));
    }
  }
  return {};
}

/// Extra files that the source names and that were not given would be lost without a word.
Result<void> check_extra_files(const CheckpointInfo& source, bool keep_all_files) {
  if (source.unread_files.empty() || !keep_all_files) return {};
  return invalid_argument(fmt::format(
      "the checkpoint keeps '{}' and {} files in all in a folder of their own; --objects DIR says where they "
      "are, --drop-extra-files leaves them out",
      source.unread_files[0].path, source.unread_files.size()));
}

bool casts_any(const CheckpointInfo& source, const Collection& target) {
  for (std::size_t t = 0; t < source.tensors.size(); ++t)
    if (source.tensors[t].dtype != target.tensors()[t].dtype) return true;
  return false;
}

std::int64_t total_bytes(std::span<const TensorInfo> tensors) {
  std::int64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) bytes += size_bytes(tensor);
  return bytes;
}

/// The tensors of the next round, from `begin` of the layout's order.
std::span<const TensorId> next_round(const RoundContext& context, std::size_t begin) {
  const auto order = context.layout.order();
  std::int64_t bytes = 0;
  std::int64_t shards = 0;
  std::size_t end = begin;
  while (end < order.size() && bytes < kRoundBytes && shards < kRoundShards) {
    bytes += size_bytes(context.target.tensors()[order[end].index()]);
    shards +=
        context.source.shard_count(order[end]) + static_cast<std::int64_t>(context.layout.arrays_of(order[end]).size());
    ++end;
  }
  return order.subspan(begin, end - begin);
}

Result<void> move_all(const RoundContext& context, ReshardReport* report) {
  for (std::size_t begin = 0; begin < context.layout.order().size();) {
    const auto tensors = next_round(context, begin);
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t windows, Round::move_tensors(context, tensors));
    report->windows += windows;
    begin += tensors.size();
  }
  for (const OutputArray& storage : context.layout.storages()) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t windows, Round::move_storage(context, storage));
    report->windows += windows;
  }
  return {};
}

/// Files that say something of all others, such as their checksums.
Result<void> write_last_files(const CheckpointReader& source, const OutputPlan& plan, CheckpointWriter& writer,
                              FileSystem& files, const std::string& folder, OutputFiles& output, Progress& progress) {
  const auto is_last = [](const OutputFile& file) { return file.after_others; };
  if (std::none_of(plan.files.begin(), plan.files.end(), is_last)) return {};
  const auto open = [&](std::int32_t file) {
    return files.open(fmt::format("{}/{}", folder, plan.files[static_cast<std::size_t>(file)].path));
  };
  progress.start_phase("sums", output.bytes_written());
  TENPLEX_TRY(writer.take_written(open, progress));
  return output.write_last_files(source);
}

Result<void> verify_target(const CheckpointReader& source, const TargetNotes& notes, const std::string& path,
                           const ReshardOptions& options, Executor& executor, Progress& progress) {
  TENPLEX_ASSIGN_OR_RETURN(const auto written, options.reopen(path));
  const VerifyOptions verify_options{options.max_memory_bytes, options.cast, notes.not_compared};
  TENPLEX_ASSIGN_OR_RETURN(const VerifyReport report, verify(source, *written, verify_options, executor, progress));
  if (!report.differences.empty()) {
    const TensorDifference& first = report.differences.front();
    const TensorInfo& tensor = first.kind == TensorDifference::Kind::kOnlyInSecond ? first.second : first.first;
    return corrupt(fmt::format("the written target differs from the source in {}, first '{}'",
                               counted(report.differences.size(), "tensor"), tensor.name));
  }
  if (!report.object_differences.empty()) {
    return corrupt(fmt::format("the written target differs from the source: {}", report.object_differences.front()));
  }
  return {};
}

}  // namespace

Result<void> check_memory_limit(std::int64_t max_memory_bytes) {
  if (max_memory_bytes >= kMinMemoryBytes) return {};
  return invalid_argument(fmt::format("memory limit: expected at least {}, found {}", format_bytes(kMinMemoryBytes),
                                      format_bytes(max_memory_bytes)));
}

Result<ReshardReport> reshard(const CheckpointReader& source, const Collection& target, CheckpointWriter& writer,
                              const WriteRequest& request, FileSystem& files, const std::string& path,
                              const ReshardOptions& options, Executor& executor, Progress& progress) {
  Clock clock;
  ReshardReport report;
  TENPLEX_TRY(check_memory_limit(options.max_memory_bytes));
  if (options.verify && !options.reopen) return internal_error("verify needs a way to open the target");
  TENPLEX_ASSIGN_OR_RETURN(const auto collection, SourceCollection::build(source.info()));
  TENPLEX_TRY(check_extra_files(source.info(), request.keep_all_files));
  TENPLEX_TRY(check_tensors(source.info(), target, options.cast));
  TENPLEX_ASSIGN_OR_RETURN(const OutputPlan plan, writer.prepare(request));
  if (plan.single_file && path.ends_with('/'))
    return invalid_argument(fmt::format("'{}' names a folder, and the target is one file: leave the '/' out", path));
  TENPLEX_TRY(check_open_files(static_cast<std::int64_t>(plan.files.size())));
  TENPLEX_ASSIGN_OR_RETURN(const OutputLayout layout, OutputLayout::build(plan, target, writer));
  const auto* const noted = dynamic_cast<const NotedWriter*>(&writer);
  const TargetNotes notes = noted != nullptr ? noted->notes() : TargetNotes();
  TENPLEX_TRY(check_equal_scalars(source, notes.equal));
  report.problems = notes.problems;
  report.tensors = static_cast<std::int64_t>(source.info().tensors.size());
  report.bytes_needed = total_bytes(source.info().tensors);

  TENPLEX_TRY(source.check_files(progress));
  TENPLEX_ASSIGN_OR_RETURN(
      const auto commit,
      AtomicTarget::begin(files, path, {plan.single_file, options.overwrite, options.sync, options.replaced}));
  TENPLEX_TRY(check_space(files, plan, path, request.objects_folder));
  AddedFiles objects(files, request.objects_folder);
  TENPLEX_ASSIGN_OR_RETURN(const auto output, OutputFiles::create(*commit, objects, plan, layout, writer, source));
  report.plan_seconds = clock.lap();

  progress.start_phase("write", total_bytes(target.tensors()));
  ItemLedger ledger(source);
  ChunkReader chunks(source, *collection, ledger);
  {
    MemoryBudget budget(options.max_memory_bytes);
    const SlotNeeds needs{executor.thread_count(), casts_any(source.info(), target), collection->has_copies()};
    TENPLEX_ASSIGN_OR_RETURN(const auto slots, Slots::allocate(budget, needs));
    const RoundContext context{source, *collection, target, layout, chunks, *output, *slots, executor, progress};
    TENPLEX_TRY(check_aliases(context, plan));
    TENPLEX_TRY(move_all(context, &report));
    report.peak_buffer_bytes = budget.peak();
  }
  report.bytes_read = chunks.bytes_read();
  TENPLEX_TRY(ledger.complete_small_gaps(&report.bytes_read));
  report.items_checked = ledger.checked();
  report.items_unchecked = ledger.unchecked();
  report.move_seconds = clock.lap();

  progress.start_phase("sync", 0);
  TENPLEX_TRY(output->write_literals(source, executor, progress.stop()));
  TENPLEX_TRY(write_last_files(source, plan, writer, files, commit->partial_path(), *output, progress));
  TENPLEX_TRY(output->finish(source, executor, progress.stop()));
  report.bytes_written = output->bytes_written();
  report.files_written = output->file_count();
  report.finish_seconds = clock.lap();

  if (options.verify) {
    TENPLEX_TRY(verify_target(source, notes, commit->partial_path(), options, executor, progress));
    report.verified = true;
    report.verify_seconds = clock.lap();
  }
  TENPLEX_TRY(source.check_unchanged());
  TENPLEX_TRY(progress.check());
  TENPLEX_TRY(commit->commit());
  if (!commit->left_behind().empty())
    report.problems.push_back(
        fmt::format("the old target could not be removed and is now '{}': remove it yourself", commit->left_behind()));
  objects.keep();
  report.finish_seconds += clock.lap();
  return report;
}

}  // namespace tenplex
