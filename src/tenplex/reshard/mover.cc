// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tenplex/copy/convert.h"
#include "tenplex/formats/stale_hint.h"
#include "tenplex/reshard/local_range.h"
#include "tenplex/reshard/strided_equal.h"

namespace tenplex {
namespace {

/// The part of a planned copy that lies in a window, with its place in the array.
struct Part {
  const ReadPlan* plan = nullptr;
  const PlannedCopy* copy = nullptr;
  Box box;
  std::int64_t offset = 0;  ///< bytes, in the array, of the first unit

  std::int64_t unit_bytes() const { return plan->unit.target_bytes; }
  std::int64_t bytes() const { return volume(box) * unit_bytes(); }
  std::int64_t end() const { return offset + span_bytes(box.extent, copy->local.strides, unit_bytes()); }
};

Part part_of(const ReadPlan& plan, const PlannedCopy& copy, Box box) {
  Part part{&plan, &copy, std::move(box), 0};
  part.offset = copy.local.offset + offset_of(part.box.offset, copy.box.offset, copy.local.strides);
  return part;
}

/// The parts of one window that belong to one array.
struct Region {
  const PlannedArray* array = nullptr;
  std::vector<Part> parts;
  std::int64_t begin = INT64_MAX;  ///< hull of the parts in the array, bytes
  std::int64_t end = 0;
  std::int64_t bytes = 0;

  void add(Part part) {
    begin = std::min(begin, part.offset);
    end = std::max(end, part.end());
    bytes += part.bytes();
    parts.push_back(std::move(part));
  }
  /// The parts are disjoint, so they fill the hull exactly when they are as long as it.
  bool dense() const { return bytes == end - begin; }
};

std::vector<Region> regions_of(std::span<const PlannedWindow> windows) {
  std::vector<Region> regions;
  std::vector<std::uint32_t> copies;
  for (const auto& [plan, number] : windows) {
    if (!plan->grid) continue;
    const Box window = plan->grid->window(number);
    plan->copies_of_windows(number, number, &copies);
    std::uint32_t array = UINT32_MAX;
    for (const std::uint32_t index : copies) {
      const PlannedCopy& copy = plan->copies[index];
      if (plan->arrays[copy.array].scattered) continue;
      auto common = intersect(copy.box, window);
      if (!common) continue;
      if (array != copy.array) regions.emplace_back().array = &plan->arrays[copy.array];
      array = copy.array;
      regions.back().add(part_of(*plan, copy, std::move(*common)));
    }
  }
  return regions;
}

/// Collects regions until the window memory is full, then reads and writes them.
class Batch {
 public:
  Batch(ChunkReader& reader, OutputFiles& output, const Slot& slot) : reader_(reader), output_(output), slot_(slot) {}

  Result<void> add(const Region& region) {
    const auto capacity = static_cast<std::int64_t>(slot_.window.size());
    // A single region never is larger than the window memory: an array holds an element once.
    if (used_ + region.bytes > capacity) TENPLEX_TRY(flush());
    TENPLEX_CHECK(region.bytes <= capacity);
    if (region.dense()) {
      add_dense(region);
    } else {
      for (const Part& part : region.parts) add_apart(region, part);
    }
    return {};
  }

  Result<void> flush() {
    TENPLEX_TRY(read_planned(reader_, reads_, slot_));
    TENPLEX_TRY(output_.write(ready_));
    reads_.clear();
    ready_.clear();
    used_ = 0;
    return {};
  }

 private:
  std::byte* take(std::int64_t bytes) {
    std::byte* memory = slot_.window.data() + used_;
    used_ += bytes;
    return memory;
  }

  void add_dense(const Region& region) {
    std::byte* memory = take(region.bytes);
    for (const Part& part : region.parts) {
      reads_.push_back(
          {part.plan, part.copy->shard, part.box, memory + (part.offset - region.begin), part.copy->local.strides});
    }
    ready_.push_back({region.array->output, region.begin, memory, region.bytes, region.array->has_padding});
  }

  // The part is packed in memory; each of its runs in the array becomes a write of its own.
  void add_apart(const Region& region, const Part& part) {
    std::byte* memory = take(part.bytes());
    const Dims& extent = part.box.extent;
    const Dims& strides = part.copy->local.strides;
    reads_.push_back({part.plan, part.copy->shard, part.box, memory, contiguous_strides(extent, part.unit_bytes())});
    std::int64_t run = part.unit_bytes();
    int outer = extent.rank();
    while (outer > 0 && (extent[outer - 1] == 1 || strides[outer - 1] == run)) run *= extent[--outer];
    Dims index = Dims::filled(outer, 0);
    for (std::int64_t done = 0; done < part.bytes(); done += run) {
      std::int64_t offset = part.offset;
      for (int dim = 0; dim < outer; ++dim) offset += index[dim] * strides[dim];
      ready_.push_back({region.array->output, offset, memory + done, run, region.array->has_padding});
      for (int dim = outer - 1; dim >= 0 && ++index[dim] == extent[dim]; --dim) index[dim] = 0;
    }
  }

  ChunkReader& reader_;
  OutputFiles& output_;
  const Slot& slot_;
  std::vector<PlannedRead> reads_;
  std::vector<ReadyBytes> ready_;
  std::int64_t used_ = 0;
};

ReadRequest request_of(const PlannedRead& read) {
  return {read.plan->tensor, read.shard, read.plan->unit, read.box, read.memory, read.strides};
}

/// Reads window by window into the cast memory and converts into place.
Result<void> read_and_convert(ChunkReader& reader, const PlannedRead& read, const Slot& slot) {
  const std::int64_t stored_bytes = read.plan->unit.source_bytes;
  const WindowGrid grid(read.box, static_cast<std::int64_t>(slot.cast.size()) / stored_bytes);
  for (std::int64_t i = 0; i < grid.count(); ++i) {
    const Box window = grid.window(i);
    const Dims strides = contiguous_strides(window.extent, stored_bytes);
    const ReadRequest request{read.plan->tensor, read.shard, read.plan->unit, window, slot.cast.data(), strides};
    TENPLEX_TRY(reader.read({&request, 1}, {slot.scratch, slot.compare}));
    strided_convert(read.plan->target_dtype, read.memory + offset_of(window.offset, read.box.offset, read.strides),
                    read.plan->source_dtype, slot.cast.data(), {window.extent, read.strides, strides});
  }
  return {};
}

}  // namespace

Result<void> read_planned(ChunkReader& reader, std::span<const PlannedRead> reads, const Slot& slot) {
  std::vector<ReadRequest> requests;
  requests.reserve(reads.size());
  for (const PlannedRead& read : reads) {
    if (read.plan->casts()) {
      TENPLEX_TRY(read_and_convert(reader, read, slot));
    } else {
      requests.push_back(request_of(read));
    }
  }
  return reader.read(requests, {slot.scratch, slot.compare});
}

Result<void> Mover::move_windows(std::span<const PlannedWindow> windows, const Slot& slot) {
  std::vector<Region> regions = regions_of(windows);
  // In file order, so that what is adjacent in a file is adjacent in memory.
  std::sort(regions.begin(), regions.end(), [&](const Region& a, const Region& b) {
    const Destination& first = output_.first_place(*a.array->output);
    const Destination& second = output_.first_place(*b.array->output);
    return first.file != second.file ? first.file < second.file : first.offset + a.begin < second.offset + b.begin;
  });
  Batch batch(reader_, output_, slot);
  for (const Region& region : regions) TENPLEX_TRY(batch.add(region));
  return batch.flush();
}

namespace {

/// What bytes [begin, end) of an array take from one plan, placed at `memory`.
void add_range_reads(const ReadPlan& plan, const PlannedArray& array, std::int64_t begin, std::int64_t end,
                     std::byte* memory, std::vector<PlannedRead>* reads) {
  std::vector<Box> boxes;
  for (std::uint32_t i = 0; i < array.copy_count; ++i) {
    const PlannedCopy& copy = plan.copies[array.first_copy + i];
    boxes_in_range(copy.box, copy.local, plan.unit.target_bytes, begin, end, &boxes);
    for (Box& box : boxes) {
      const Part part = part_of(plan, copy, std::move(box));
      reads->push_back({&plan, copy.shard, part.box, memory + (part.offset - begin), copy.local.strides});
    }
  }
}

}  // namespace

Result<void> Mover::move_range(std::span<const ReadPlan> plans, std::size_t array, std::int64_t begin, std::int64_t end,
                               const Slot& slot) {
  const auto size = static_cast<std::size_t>(end - begin);
  TENPLEX_CHECK(size <= slot.window.size());
  if (plans.front().arrays[array].has_padding || plans.size() > 1) std::memset(slot.window.data(), 0, size);
  // Plan after plan, so that where they share bytes the last one stands there.
  std::vector<PlannedRead> reads;
  for (const ReadPlan& plan : plans) {
    reads.clear();
    add_range_reads(plan, plan.arrays[array], begin, end, slot.window.data(), &reads);
    TENPLEX_TRY(read_planned(reader_, reads, slot));
  }
  const ReadyBytes ready{plans.front().arrays[array].output, begin, slot.window.data(), end - begin, false};
  return output_.write({&ready, 1});
}

Result<void> Mover::compare_range(std::span<const ReadPlan> plans, std::size_t array, std::int64_t begin,
                                  std::int64_t end, const Slot& slot) {
  const std::size_t half = slot.window.size() / 2;
  TENPLEX_CHECK(static_cast<std::size_t>(end - begin) <= half);
  std::byte* again = slot.window.data() + half;
  std::vector<PlannedRead> reads;
  for (const ReadPlan& plan : plans) {
    reads.clear();
    add_range_reads(plan, plan.arrays[array], begin, end, slot.window.data(), &reads);
    for (const PlannedRead& whole : reads) {
      const WindowGrid grid(whole.box, static_cast<std::int64_t>(half) / plan.unit.target_bytes);
      for (std::int64_t i = 0; i < grid.count(); ++i) {
        const Box window = grid.window(i);
        const Dims strides = contiguous_strides(window.extent, plan.unit.target_bytes);
        const PlannedRead read{&plan, whole.shard, window, again, strides};
        TENPLEX_TRY(read_planned(reader_, {&read, 1}, slot));
        const std::byte* first = whole.memory + offset_of(window.offset, whole.box.offset, whole.strides);
        if (strided_equal(first, again, {window.extent, whole.strides, strides, plan.unit.target_bytes})) continue;
        return corrupt(fmt::format("tensor '{}' shares memory with other tensors but holds different values{}",
                                   reader_.info().tensors[plan.tensor.index()].name, stale_hint(reader_.info())));
      }
    }
  }
  return {};
}

}  // namespace tenplex
