// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/slicing.h"

#include <algorithm>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

std::int64_t parts_of(const Cut& cut) {
  return std::visit([](const auto& any) { return any.parts; }, cut);
}

/// Segment `segment` of an array whose equal segments alternate in blocks: its indices, in order.
RunList gather_interleaved(const RunList& runs, std::int64_t segments, std::int64_t segment, std::int64_t block) {
  const std::int64_t length = runs.extent() / segments;
  RunList gathered;
  for (std::int64_t begin = 0; begin < length; begin += block) {
    const std::int64_t size = std::min(block, length - begin);
    gathered.append_range(runs, begin * segments + segment * size, size);
  }
  return gathered;
}

std::vector<RunList> split_segments(const RunList& runs, const DimCut& cut) {
  const auto count = static_cast<std::int64_t>(cut.segments.size());
  std::vector<RunList> segments;
  if (cut.interleave > 0) {
    for (std::int64_t segment = 0; segment < count; ++segment)
      segments.push_back(gather_interleaved(runs, count, segment, cut.interleave));
    return segments;
  }
  std::int64_t sum = 0;
  for (const std::int64_t ratio : cut.segments) sum += ratio;
  std::int64_t begin = 0;
  for (const std::int64_t ratio : cut.segments) {
    const std::int64_t length = runs.extent() / sum * ratio;
    segments.emplace_back().append_range(runs, begin, length);
    begin += length;
  }
  return segments;
}

/// Puts the segments' parts together: one after the other, or alternating in blocks.
RunList join_segments(const std::vector<RunList>& segments, std::int64_t block) {
  RunList joined;
  if (block == 0) {
    for (const RunList& segment : segments) joined.append_range(segment, 0, segment.extent());
    return joined;
  }
  const std::int64_t length = segments.front().extent();
  for (std::int64_t begin = 0; begin < length; begin += block)
    for (const RunList& segment : segments) joined.append_range(segment, begin, std::min(block, length - begin));
  return joined;
}

/// Adds the pieces of the local box `box` of an array with these runs; local offsets count from `origin`.
void add_pieces(const std::vector<RunList>& runs, const Box& box, const Dims& strides, std::int64_t origin,
                std::vector<Piece>* pieces) {
  const int rank = box.rank();
  std::vector<std::vector<RunList::Run>> choices(static_cast<std::size_t>(rank));
  for (int dim = 0; dim < rank; ++dim) {
    auto& choice = choices[static_cast<std::size_t>(dim)];
    runs[static_cast<std::size_t>(dim)].for_range(box.offset[dim], box.extent[dim], [&](const RunList::Run& run) {
      if (run.begin != RunList::kPadding) choice.push_back(run);
    });
    if (choice.empty()) return;
  }
  std::vector<std::size_t> digits(static_cast<std::size_t>(rank), 0);
  while (true) {
    Piece piece{Box::whole(Dims::filled(rank, 0)), -origin, strides};
    for (int dim = 0; dim < rank; ++dim) {
      const RunList::Run& run = choices[static_cast<std::size_t>(dim)][digits[static_cast<std::size_t>(dim)]];
      piece.box.offset[dim] = run.begin;
      piece.box.extent[dim] = run.length;
      piece.local_offset += run.local * strides[dim];
    }
    pieces->push_back(piece);
    int dim = rank - 1;
    while (dim >= 0 && ++digits[static_cast<std::size_t>(dim)] == choices[static_cast<std::size_t>(dim)].size())
      digits[static_cast<std::size_t>(dim--)] = 0;
    if (dim < 0) return;
  }
}

}  // namespace

/// The part of a flattening that a shard holds: elements [begin, begin + data), then padding up to `length`.
struct Slicing::FlatRange {
  std::int64_t begin = 0;
  std::int64_t data = 0;
  std::int64_t length = 0;

  FlatRange cut(const FlatCut& cut, std::int64_t part) const {
    const std::int64_t whole = cut.bucket_size < 0 ? length : cut.bucket_size;
    Range range = part_range(cut.split, whole, cut.parts, part);
    if (cut.bucket_size >= 0) {
      const std::int64_t first = std::clamp(range.begin - cut.bucket_offset, std::int64_t{0}, length);
      const std::int64_t end = std::clamp(range.begin + range.length - cut.bucket_offset, std::int64_t{0}, length);
      range = {first, end - first};
    }
    FlatRange result;
    result.begin = begin + range.begin;
    result.data = std::clamp(data - range.begin, std::int64_t{0}, range.length);
    result.length = cut.padded ? part_range(cut.split, whole, cut.parts, 0).length : range.length;
    return result;
  }
};

RunList cut_dimension(const RunList& runs, const DimCut& cut, std::int64_t part) {
  if (!cut.table.empty()) {
    RunList local;
    for (std::size_t index = 0; index < cut.table.size(); ++index)
      if (cut.table[index] == part) local.append_range(runs, static_cast<std::int64_t>(index), 1);
    return local;
  }
  if (cut.segments.empty()) {
    const Range range = part_range(cut.split, runs.extent(), cut.parts, part);
    RunList local;
    local.append_range(runs, range.begin, range.length);
    return local;
  }
  std::vector<RunList> segments = split_segments(runs, cut);
  for (RunList& segment : segments) {
    const Range range = part_range(cut.split, segment.extent(), cut.parts, part);
    RunList local;
    local.append_range(segment, range.begin, range.length);
    segment = std::move(local);
  }
  return join_segments(segments, cut.local_interleave);
}

Result<Slicing> Slicing::make(const Dims& shape, std::optional<PaddedDim> padding, std::vector<Cut> cuts) {
  Slicing slicing;
  slicing.shape_ = shape;
  slicing.padded_shape_ = shape;
  slicing.cuts_ = std::move(cuts);
  if (padding) {
    if (padding->dim < 0 || padding->dim >= shape.rank())
      return invalid_argument("pads dim " + std::to_string(padding->dim) + " of a tensor of rank " +
                              std::to_string(shape.rank()));
    if (padding->padded < shape[padding->dim]) return invalid_argument("the padded extent is smaller than the data");
    slicing.padded_shape_[padding->dim] = padding->padded;
  }
  TENPLEX_TRY(slicing.check());
  return slicing;
}

std::int64_t Slicing::part_count() const {
  std::int64_t count = 1;
  for (const Cut& cut : cuts_) count *= parts_of(cut);
  return count;
}

void Slicing::sub_tensor(std::span<const std::int64_t> parts, SubTensor* shard) const {
  TENPLEX_CHECK(parts.size() == cuts_.size());
  shard->pieces.clear();
  if (boxes_only_) {
    cut_boxes(parts, shard);
  } else {
    cut_runs(parts, shard);
  }
}

void Slicing::cut_boxes(std::span<const std::int64_t> parts, SubTensor* shard) const {
  Box box = Box::whole(shape_);
  for (std::size_t index = 0; index < cuts_.size(); ++index) {
    const DimCut& cut = *std::get_if<DimCut>(&cuts_[index]);
    const Range range = part_range(cut.split, box.extent[cut.dim], cut.parts, parts[index]);
    box.offset[cut.dim] += range.begin;
    box.extent[cut.dim] = range.length;
  }
  shard->local_shape = box.extent;
  if (!box.empty()) shard->pieces.push_back({box, 0, row_major_strides(box.extent)});
}

void Slicing::cut_runs(std::span<const std::int64_t> parts, SubTensor* shard) const {
  std::vector<RunList> runs;
  runs.reserve(static_cast<std::size_t>(shape_.rank()));
  for (int dim = 0; dim < shape_.rank(); ++dim) runs.push_back(RunList::whole(shape_[dim], padded_shape_[dim]));
  Dims local = padded_shape_;
  std::optional<FlatRange> flat;
  for (std::size_t index = 0; index < cuts_.size(); ++index) {
    if (const auto* cut = std::get_if<DimCut>(&cuts_[index])) {
      RunList& dimension = runs[static_cast<std::size_t>(cut->dim)];
      dimension = cut_dimension(dimension, *cut, parts[index]);
      local[cut->dim] = dimension.extent();
    } else {
      if (!flat) flat = FlatRange{0, volume(local), volume(local)};
      flat = flat->cut(*std::get_if<FlatCut>(&cuts_[index]), parts[index]);
    }
  }
  const Dims strides = row_major_strides(local);
  shard->local_shape = flat ? Dims{flat->length} : local;
  if (volume(local) == 0) return;
  if (!flat) return add_pieces(runs, Box::whole(local), strides, 0, &shard->pieces);
  for (const Box& box : boxes_of_flat_range(local, flat->begin, flat->begin + flat->data))
    add_pieces(runs, box, strides, flat->begin, &shard->pieces);
}

}  // namespace tenplex
