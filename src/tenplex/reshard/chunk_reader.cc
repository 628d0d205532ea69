// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/chunk_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tenplex/reshard/stored_box.h"
#include "tenplex/reshard/strided_equal.h"
#include "tenplex/reshard/window.h"

namespace tenplex {
namespace {

// A run this long is read straight into place; shorter ones are cheaper through the cache.
constexpr std::int64_t kDirectBytes = 64 << 10;

// Between two items, up to this much of headers and padding is read along; between two runs of one box less.
constexpr std::int64_t kItemGapBytes = 3 << 10;
constexpr std::int64_t kRunGapBytes = 512;

// Runs nearer to each other than this touch every page on the way, which the disk reads in any case.
constexpr std::int64_t kDiskPageBytes = 4 << 10;

// The widest gap between neighbouring parts of a box in its file.
std::int64_t widest_gap(StoredBox box) {
  std::int64_t widest = 0;
  for (int dim = box.widest_dim(); dim >= 0; dim = box.widest_dim()) {
    StoredBox part = box.part(dim, 0, 1);
    widest = std::max(widest, box.file_strides[dim] - part.span());
    box = std::move(part);
  }
  return widest;
}

}  // namespace

// One call of read().
class ChunkReader::Pass {
 public:
  Pass(ChunkReader& owner, MutableByteSpan scratch)
      : owner_(owner), scratch_(scratch), capacity_(static_cast<std::int64_t>(scratch.size())) {}

  void reserve(std::size_t count) { boxes_.reserve(count); }

  Result<void> add(StoredBox box) {
    TENPLEX_ASSIGN_OR_RETURN(const ByteSource* source, owner_.reader_.file(box.file));
    if (box.position < 0 || box.position > source->size() || box.span() > source->size() - box.position) {
      return corrupt(fmt::format("file '{}': tensor '{}' lies outside the file of {} bytes", source->name(),
                                 name_of(box), source->size()));
    }
    split(std::move(box));
    return {};
  }

  Result<void> run() {
    sort();
    for (std::size_t begin = 0; begin < boxes_.size();) {
      const std::size_t end = end_of_group(begin);
      TENPLEX_TRY(read_group({boxes_.data() + begin, end - begin}));
      begin = end;
    }
    return {};
  }

 private:
  const std::string& name_of(const StoredBox& box) const {
    return owner_.reader_.info().tensors[box.tensor.index()].name;
  }

  // Boxes are large: sort their places, then move each box once.
  void sort() {
    struct Place {
      std::int32_t file;
      std::uint32_t index;
      std::int64_t position;
    };
    std::vector<Place> places;
    places.reserve(boxes_.size());
    for (std::uint32_t i = 0; i < boxes_.size(); ++i) places.push_back({boxes_[i].file, i, boxes_[i].position});
    const auto before = [](const Place& a, const Place& b) {
      return a.file != b.file ? a.file < b.file : a.position < b.position;
    };
    if (std::is_sorted(places.begin(), places.end(), before)) return;
    std::sort(places.begin(), places.end(), before);
    std::vector<StoredBox> sorted;
    sorted.reserve(boxes_.size());
    for (const Place& place : places) sorted.push_back(std::move(boxes_[place.index]));
    boxes_ = std::move(sorted);
  }

  bool is_direct(const StoredBox& box) const {
    return box.bytes() >= std::min(kDirectBytes, capacity_) && box.contiguous_in_file() && box.contiguous_in_memory();
  }

  // Until every part is direct or fits in the scratch memory.
  void split(StoredBox box) {
    if (is_direct(box) || box.span() <= capacity_) {
      boxes_.push_back(std::move(box));
      return;
    }
    std::vector<StoredBox> open = {std::move(box)};
    while (!open.empty()) {
      StoredBox next = std::move(open.back());
      open.pop_back();
      if (is_direct(next) || next.span() <= capacity_) {
        boxes_.push_back(std::move(next));
        continue;
      }
      const int dim = next.widest_dim();
      const std::int64_t extent = next.extent[dim];
      // Steps along the widest dimension, as many as fit at once.
      const std::int64_t one = next.part(dim, 0, 1).span();
      const std::int64_t stride = std::max<std::int64_t>(1, next.file_strides[dim]);
      const std::int64_t step = one > capacity_ ? 1 : std::min(extent, 1 + (capacity_ - one) / stride);
      for (std::int64_t end = extent; end > 0; end -= std::min(step, end))
        open.push_back(next.part(dim, std::max<std::int64_t>(0, end - step), end));
    }
  }

  // Boxes that one read into the scratch memory can serve; a direct one stands alone.
  std::size_t end_of_group(std::size_t begin) const {
    const StoredBox& first = boxes_[begin];
    std::size_t end = begin + 1;
    if (is_direct(first)) return end;
    for (std::int64_t reach = first.end(); end < boxes_.size(); ++end) {
      const StoredBox& next = boxes_[end];
      if (next.file != first.file || next.position > reach + kItemGapBytes || is_direct(next)) break;
      if (std::max(reach, next.end()) - first.position > capacity_) break;
      reach = std::max(reach, next.end());
    }
    return end;
  }

  Result<void> read_group(std::span<const StoredBox> group) {
    const StoredBox& first = group.front();
    if (is_direct(first)) {
      return read_bytes(group, first.position, {first.memory, static_cast<std::size_t>(first.bytes())});
    }
    std::int64_t reach = first.end();
    std::int64_t wanted = 0;
    std::int64_t items = 0;
    const StoredBox* previous = nullptr;
    for (const StoredBox& box : group) {
      reach = std::max(reach, box.end());
      wanted += box.bytes();
      if (previous == nullptr || previous->tensor != box.tensor) ++items;
      previous = &box;
    }
    const std::int64_t length = reach - first.position;
    if (length - wanted > wanted / 20 + items * kItemGapBytes) {
      for (const StoredBox& box : group) TENPLEX_TRY(read_runs(box));
      return {};
    }
    const MutableByteSpan bytes = scratch_.first(static_cast<std::size_t>(length));
    TENPLEX_TRY(read_bytes(group, first.position, bytes));
    for (const StoredBox& box : group) box.copy_from(bytes.data(), first.position);
    return {};
  }

  // A box with wide gaps: its dense parts one by one.
  Result<void> read_runs(const StoredBox& whole) {
    std::vector<StoredBox> open = {whole};
    while (!open.empty()) {
      const StoredBox box = std::move(open.back());
      open.pop_back();
      const int dim = box.widest_dim();
      const std::int64_t gap = dim < 0 ? 0 : box.file_strides[dim] - box.part(dim, 0, 1).span();
      if (dim < 0 || (gap <= kRunGapBytes && box.span() - box.bytes() <= std::max(box.bytes(), kRunGapBytes)) ||
          widest_gap(box) < kDiskPageBytes) {
        const MutableByteSpan bytes = scratch_.first(static_cast<std::size_t>(box.span()));
        TENPLEX_TRY(read_bytes({&box, 1}, box.position, bytes));
        box.copy_from(bytes.data(), box.position);
        continue;
      }
      for (std::int64_t i = box.extent[dim] - 1; i >= 0; --i) open.push_back(box.part(dim, i, i + 1));
    }
    return {};
  }

  Result<void> read_at(const ByteSource& source, std::int64_t position, MutableByteSpan bytes, const StoredBox& box) {
    auto result = source.read_at(position, bytes);
    if (result) return {};
    return std::move(result).with_context(fmt::format("tensor '{}'", name_of(box)));
  }

  Result<void> read_bytes(std::span<const StoredBox> group, std::int64_t position, MutableByteSpan bytes) {
    TENPLEX_ASSIGN_OR_RETURN(const ByteSource* source, owner_.reader_.file(group.front().file));
    TENPLEX_TRY(read_at(*source, position, bytes, group.front()));
    owner_.bytes_read_ += static_cast<std::int64_t>(bytes.size());
    const CheckedRange* previous = nullptr;
    for (const StoredBox& box : group) {
      if (!box.item || (previous != nullptr && previous->begin == box.item->begin)) continue;
      previous = &*box.item;
      TENPLEX_TRY(owner_.ledger_.add(box.file, *box.item, position, bytes, box.tensor));
    }
    return {};
  }

  ChunkReader& owner_;
  MutableByteSpan scratch_;
  const std::int64_t capacity_;
  std::vector<StoredBox> boxes_;
};

Result<void> ChunkReader::read(std::span<const ReadRequest> requests, const Scratch& scratch) {
  Pass pass(*this, scratch.scratch);
  pass.reserve(requests.size());
  bool has_copies = false;
  for (const ReadRequest& request : requests) {
    const auto copies = collection_.copies(request.tensor, request.shard);
    has_copies = has_copies || copies.size() > 1;
    TENPLEX_ASSIGN_OR_RETURN(StoredBox box, locate_box(reader_, copies.front(), request.unit, request.box));
    box.memory = request.memory;
    box.memory_strides = request.strides;
    TENPLEX_TRY(pass.add(std::move(box)));
  }
  TENPLEX_TRY(pass.run());
  if (!has_copies) return {};
  for (const ReadRequest& request : requests) TENPLEX_TRY(compare_copies(request, scratch));
  return {};
}

Result<void> ChunkReader::compare_copies(const ReadRequest& request, const Scratch& scratch) {
  const auto copies = collection_.copies(request.tensor, request.shard);
  const std::int64_t unit_bytes = request.unit.source_bytes;
  const WindowGrid grid(request.box, static_cast<std::int64_t>(scratch.compare.size()) / unit_bytes);
  for (const std::uint32_t copy : copies.subspan(1)) {
    for (std::int64_t i = 0; i < grid.count(); ++i) {
      const Box window = grid.window(i);
      TENPLEX_ASSIGN_OR_RETURN(StoredBox box, locate_box(reader_, copy, request.unit, window));
      box.memory = scratch.compare.data();
      box.memory_strides = contiguous_strides(window.extent, unit_bytes);
      const Dims strides = box.memory_strides;
      Pass pass(*this, scratch.scratch);
      TENPLEX_TRY(pass.add(std::move(box)));
      TENPLEX_TRY(pass.run());
      const std::byte* first = request.memory + offset_of(window.offset, request.box.offset, request.strides);
      if (strided_equal(first, scratch.compare.data(), {window.extent, request.strides, strides, unit_bytes})) continue;
      const CheckpointInfo& info = reader_.info();
      return corrupt(fmt::format(
          "tensor '{}': files '{}' and '{}' hold different bytes for {}", info.tensors[request.tensor.index()].name,
          info.files[static_cast<std::size_t>(info.chunks[copies.front()].file)],
          info.files[static_cast<std::size_t>(info.chunks[copy].file)], to_string(info.chunks[copy].box)));
    }
  }
  return {};
}

Result<void> ChunkReader::compare(TensorId tensor, const Unit& unit, const Box& box, std::int64_t first_shard,
                                  std::int64_t second_shard, MutableByteSpan memory, const Scratch& scratch) {
  const std::size_t half = memory.size() / 2;
  const WindowGrid grid(box, static_cast<std::int64_t>(half) / unit.source_bytes);
  for (std::int64_t i = 0; i < grid.count(); ++i) {
    const Box window = grid.window(i);
    const Dims strides = contiguous_strides(window.extent, unit.source_bytes);
    const ReadRequest requests[] = {{tensor, first_shard, unit, window, memory.data(), strides},
                                    {tensor, second_shard, unit, window, memory.data() + half, strides}};
    TENPLEX_TRY(read(requests, scratch));
    const auto bytes = static_cast<std::size_t>(volume(window) * unit.source_bytes);
    if (std::memcmp(memory.data(), memory.data() + half, bytes) == 0) continue;
    const CheckpointInfo& info = reader_.info();
    const auto file_of = [&](std::int64_t shard) -> const std::string& {
      return info.files[static_cast<std::size_t>(info.chunks[collection_.copies(tensor, shard).front()].file)];
    };
    return corrupt(fmt::format("tensor '{}': chunks {} in file '{}' and {} in file '{}' hold different bytes",
                               info.tensors[tensor.index()].name, to_string(collection_.box(tensor, first_shard)),
                               file_of(first_shard), to_string(collection_.box(tensor, second_shard)),
                               file_of(second_shard)));
  }
  return {};
}

}  // namespace tenplex
