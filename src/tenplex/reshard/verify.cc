// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenplex/copy/convert.h"
#include "tenplex/reshard/compare_objects.h"
#include "tenplex/reshard/element_text.h"
#include "tenplex/reshard/reshard.h"
#include "tenplex/reshard/scan.h"
#include "tenplex/reshard/scan_run.h"

namespace tenplex {
namespace {

using Kind = TensorDifference::Kind;

/// One tensor that both have.
struct Pair {
  TensorId first;
  TensorId second;
};

struct PairScan {
  Scan first;
  Scan second;
};

/// What is known of the differences of one tensor.
struct Found {
  std::int64_t elements = 0;
  std::int64_t flat_index = INT64_MAX;
  TensorDifference difference;
};

/// Everything of one side.
struct Side {
  const CheckpointReader& checkpoint;
  std::unique_ptr<SourceCollection> collection;
  ItemLedger ledger;
  ChunkReader reader;

  Side(const CheckpointReader& which, std::unique_ptr<SourceCollection> chunks)
      : checkpoint(which), collection(std::move(chunks)), ledger(which), reader(which, *collection, ledger) {}
  const TensorInfo& tensor(TensorId id) const { return checkpoint.info().tensors[id.index()]; }
};

class Comparison {
 public:
  Comparison(Side& first, Side& second, Slots& slots, const VerifyOptions& options)
      : first_(first), second_(second), slots_(slots), options_(options) {}

  /// Sorts the tensors into pairs and differences that need no bytes.
  void match(VerifyReport* report);

  Result<void> run(Executor& executor, Progress& progress, VerifyReport* report);

 private:
  Result<PairScan> plan(const Pair& pair) const;
  Result<void> compare_window(std::size_t index, const PairScan& scans, std::int64_t window, Progress& progress);
  void count(std::size_t index, const PairScan& scans, const Box& box, ByteSpan a, ByteSpan b);

  Side& first_;
  Side& second_;
  Slots& slots_;
  const VerifyOptions& options_;
  std::vector<Pair> pairs_;
  std::vector<std::size_t> places_;  // of pair i in the report's differences, were it to differ
  std::vector<Guarded<Found>> found_;
};

void Comparison::match(VerifyReport* report) {
  const auto& tensors = first_.checkpoint.info().tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto other = second_.collection->find(tensors[t].name);
    TensorDifference difference;
    difference.first = tensors[t];
    if (!other) {
      if (starts_with_any(tensors[t].name, options_.not_compared)) continue;
      difference.kind = Kind::kOnlyInFirst;
    } else {
      difference.second = second_.tensor(*other);
      const DType to = difference.second.dtype;
      if (!(tensors[t].shape == difference.second.shape)) {
        difference.kind = Kind::kShape;
      } else if (tensors[t].dtype != to && !(options_.cast && can_convert(tensors[t].dtype, to))) {
        difference.kind = Kind::kDType;
      } else {
        pairs_.push_back({TensorId(t), *other});
        places_.push_back(report->differences.size());
        continue;
      }
    }
    report->differences.push_back(std::move(difference));
  }
  for (const TensorInfo& tensor : second_.checkpoint.info().tensors) {
    if (first_.collection->find(tensor.name) || starts_with_any(tensor.name, options_.not_compared)) continue;
    TensorDifference difference;
    difference.kind = Kind::kOnlyInSecond;
    difference.second = tensor;
    report->differences.push_back(std::move(difference));
  }
  found_ = std::vector<Guarded<Found>>(pairs_.size());
}

Result<PairScan> Comparison::plan(const Pair& pair) const {
  // Two windows lie in a slot at a time.
  const std::int64_t most = slots_.window_bytes() / 2;
  const WindowLimits limits{std::min(kScanWindowBytes, most), most};
  const DType dtype = second_.tensor(pair.second).dtype;
  TENPLEX_ASSIGN_OR_RETURN(Scan first, Scan::plan(first_.checkpoint, *first_.collection, pair.first, dtype, limits));
  TENPLEX_ASSIGN_OR_RETURN(Scan second,
                           Scan::plan(second_.checkpoint, *second_.collection, pair.second, dtype, limits));
  const Slots::Lease slot(slots_);
  TENPLEX_TRY(first.compare_overlaps(first_.reader, *slot));
  TENPLEX_TRY(second.compare_overlaps(second_.reader, *slot));
  return PairScan{std::move(first), std::move(second)};
}

Result<void> Comparison::compare_window(std::size_t index, const PairScan& scans, std::int64_t window,
                                        Progress& progress) {
  const Slots::Lease slot(slots_);
  const Box box = scans.first.window(window);
  std::byte* a = slot->window.data();
  std::byte* b = a + slot->window.size() / 2;
  TENPLEX_TRY(scans.first.read(box, a, first_.reader, *slot));
  TENPLEX_TRY(scans.second.read(box, b, second_.reader, *slot));
  const auto bytes = static_cast<std::size_t>(volume(box) * scans.first.read_plan().unit.target_bytes);
  if (std::memcmp(a, b, bytes) != 0) count(index, scans, box, {a, bytes}, {b, bytes});
  progress.add(static_cast<std::int64_t>(bytes));
  return {};
}

void Comparison::count(std::size_t index, const PairScan& scans, const Box& box, ByteSpan a, ByteSpan b) {
  const TensorInfo& tensor = second_.tensor(pairs_[index].second);
  const std::int64_t unit = scans.first.read_plan().unit.elements;
  const std::int64_t elements = volume(box) * unit;
  const int width = bit_width(tensor.dtype);
  const auto differs = [&](std::int64_t i) {
    if (width % 8 == 0)
      return std::memcmp(a.data() + i * width / 8, b.data() + i * width / 8, static_cast<std::size_t>(width / 8)) != 0;
    return element_bits(tensor.dtype, a, i) != element_bits(tensor.dtype, b, i);
  };
  std::int64_t differing = 0;
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < elements; ++i) {
    if (!differs(i)) continue;
    if (first < 0) first = i;
    ++differing;
  }
  // From the index in the window to that in the tensor.
  Dims extent = box.extent;
  Dims position = box.offset;
  if (box.rank() > 0) {
    extent[box.rank() - 1] *= unit;
    position[box.rank() - 1] *= unit;
  }
  std::int64_t rest = first;
  for (int dim = box.rank() - 1; dim >= 0; --dim) {
    position[dim] += rest % extent[dim];
    rest /= extent[dim];
  }
  const Dims strides = row_major_strides(tensor.shape);
  std::int64_t flat = 0;
  for (int dim = 0; dim < box.rank(); ++dim) flat += position[dim] * strides[dim];

  auto found = found_[index].lock();
  found->elements += differing;
  if (flat > found->flat_index) return;
  found->flat_index = flat;
  found->difference.index = position;
  found->difference.first_value = element_text(tensor.dtype, a, first);
  found->difference.second_value = element_text(tensor.dtype, b, first);
}

Result<void> Comparison::run(Executor& executor, Progress& progress, VerifyReport* report) {
  std::int64_t total = 0;
  for (const Pair& pair : pairs_) {
    total += size_bytes(second_.tensor(pair.second));
    report->elements_compared += volume(second_.tensor(pair.second).shape);
  }
  report->tensors_compared = static_cast<std::int64_t>(pairs_.size());
  progress.start_phase("verify", total);
  TENPLEX_TRY(for_each_window(
      executor, progress, pairs_.size(),
      [&](std::size_t i) {
        return 2 + first_.collection->shard_count(pairs_[i].first) + second_.collection->shard_count(pairs_[i].second);
      },
      [&](std::size_t i) { return plan(pairs_[i]); }, [](const PairScan& scans) { return scans.first.window_count(); },
      [&](std::size_t i, const PairScan& scans, std::int64_t window) {
        return compare_window(i, scans, window, progress);
      }));
  std::vector<TensorDifference> merged;
  std::size_t known = 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    for (; known < places_[i]; ++known) merged.push_back(std::move(report->differences[known]));
    auto found = found_[i].lock();
    if (found->elements == 0) continue;
    TensorDifference difference = std::move(found->difference);
    difference.kind = Kind::kValues;
    difference.first = first_.tensor(pairs_[i].first);
    difference.second = second_.tensor(pairs_[i].second);
    difference.differing_elements = found->elements;
    merged.push_back(std::move(difference));
  }
  for (; known < report->differences.size(); ++known) merged.push_back(std::move(report->differences[known]));
  report->differences = std::move(merged);
  return {};
}

}  // namespace

Result<VerifyReport> verify(const CheckpointReader& first, const CheckpointReader& second, const VerifyOptions& options,
                            Executor& executor, Progress& progress) {
  TENPLEX_TRY(check_memory_limit(options.max_memory_bytes));
  TENPLEX_ASSIGN_OR_RETURN(auto first_collection, SourceCollection::build(first.info()));
  TENPLEX_ASSIGN_OR_RETURN(auto second_collection, SourceCollection::build(second.info()));
  Side a(first, std::move(first_collection));
  Side b(second, std::move(second_collection));
  MemoryBudget budget(options.max_memory_bytes);
  const bool has_copies = a.collection->has_copies() || b.collection->has_copies();
  TENPLEX_ASSIGN_OR_RETURN(const auto slots,
                           Slots::allocate(budget, {executor.thread_count(), options.cast, has_copies}));
  TENPLEX_TRY(first.check_files(progress));
  TENPLEX_TRY(second.check_files(progress));
  VerifyReport report;
  Comparison comparison(a, b, *slots, options);
  comparison.match(&report);
  TENPLEX_TRY(comparison.run(executor, progress, &report));
  report.bytes_read = a.reader.bytes_read() + b.reader.bytes_read();
  TENPLEX_TRY(a.ledger.complete_small_gaps(&report.bytes_read));
  TENPLEX_TRY(b.ledger.complete_small_gaps(&report.bytes_read));
  TENPLEX_TRY(first.check_unchanged());
  TENPLEX_TRY(second.check_unchanged());
  report.no_objects = first.info().state.root == kNoNode && second.info().state.root == kNoNode;
  report.objects_compared =
      compare_objects(first.info().state, second.info().state, options.not_compared, &report.object_differences);
  return report;
}

}  // namespace tenplex
