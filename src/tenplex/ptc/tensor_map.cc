// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace tenplex {
namespace {

/// Parts boxes[from…] where no box crosses a plane across `axis`; appends the ends of the parts. Sorts by that axis.
std::vector<std::size_t> parts_across(std::span<Box> boxes, int axis) {
  std::sort(boxes.begin(), boxes.end(), [&](const Box& a, const Box& b) { return a.offset[axis] < b.offset[axis]; });
  std::vector<std::size_t> ends;
  std::int64_t reached = boxes.front().end(axis);
  for (std::size_t index = 1; index < boxes.size(); ++index) {
    if (boxes[index].offset[axis] >= reached) ends.push_back(index);
    reached = std::max(reached, boxes[index].end(axis));
  }
  ends.push_back(boxes.size());
  return ends;
}

bool tile_full(std::span<Box> boxes, const Box& region);

/// Each part must fill the region from where the part before it ended.
bool tile_parts(std::span<Box> boxes, const Box& region, int axis, const std::vector<std::size_t>& ends) {
  std::int64_t at = region.offset[axis];
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const std::span<Box> part = boxes.subspan(begin, end - begin);
    std::int64_t last = part.front().end(axis);
    for (const Box& box : part) last = std::max(last, box.end(axis));
    Box band = region;
    band.offset[axis] = at;
    band.extent[axis] = last - at;
    if (part.front().offset[axis] != at || last > region.end(axis) || !tile_full(part, band)) return false;
    at = last;
    begin = end;
  }
  return at == region.end(axis);
}

bool tile_full(std::span<Box> boxes, const Box& region) {
  if (boxes.size() == 1) return boxes.front() == region;
  for (int axis = 0; axis < region.rank(); ++axis) {
    const std::vector<std::size_t> ends = parts_across(boxes, axis);
    if (ends.size() > 1) return tile_parts(boxes, region, axis, ends);
  }
  return false;
}

bool lies_in(const Box& box, const Dims& shape) {
  if (box.rank() != shape.rank()) return false;
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || box.offset[dim] > shape[dim] ||
        box.extent[dim] > shape[dim] - box.offset[dim])
      return false;
  return true;
}

/// Do the extents of the two boxes agree as the axes say?
bool axes_fit(const MapPiece& piece) {
  std::array<bool, kMaxRank> named{};
  for (int axis = 0; axis < piece.target_box.rank(); ++axis) {
    const int from = piece.axes[static_cast<std::size_t>(axis)];
    if (from == kNewAxis) {
      if (piece.target_box.extent[axis] != 1) return false;
      continue;
    }
    if (from < 0 || from >= piece.source_box.rank() || named[static_cast<std::size_t>(from)]) return false;
    named[static_cast<std::size_t>(from)] = true;
    if (piece.target_box.extent[axis] != piece.source_box.extent[from]) return false;
  }
  for (int axis = 0; axis < piece.source_box.rank(); ++axis)
    if (!named[static_cast<std::size_t>(axis)] && piece.source_box.extent[axis] != 1) return false;
  return true;
}

Error broken(const TensorInfo& tensor, std::string_view why) {
  return internal_error(
      fmt::format("the map of tensor '{}' of shape {}: {}", tensor.name, to_string(tensor.shape), why));
}

}  // namespace

std::string to_string(const MapPiece& piece) {
  std::string text =
      fmt::format("{}{} as {} axes", piece.source.value(), to_string(piece.source_box), to_string(piece.target_box));
  for (int axis = 0; axis < piece.target_box.rank(); ++axis)
    text += fmt::format(" {}", static_cast<int>(piece.axes[static_cast<std::size_t>(axis)]));
  return text;
}

std::optional<MapPiece> clip(const MapPiece& piece, const Box& source_box) {
  auto common = intersect(piece.source_box, source_box);
  if (!common) return std::nullopt;
  MapPiece clipped = piece;
  for (int axis = 0; axis < piece.target_box.rank(); ++axis) {
    const int from = piece.axes[static_cast<std::size_t>(axis)];
    if (from == kNewAxis) continue;
    clipped.target_box.offset[axis] += common->offset[from] - piece.source_box.offset[from];
    clipped.target_box.extent[axis] = common->extent[from];
  }
  clipped.source_box = *std::move(common);
  return clipped;
}

bool tile(std::span<Box> boxes, const Box& region) {
  const auto full = std::partition(boxes.begin(), boxes.end(), [](const Box& box) { return !box.empty(); });
  boxes = boxes.first(static_cast<std::size_t>(full - boxes.begin()));
  if (boxes.empty() || region.empty()) return boxes.empty() && region.empty();
  return tile_full(boxes, region);
}

Result<void> check_map(const TensorMap& map, std::span<const TensorInfo> sources) {
  std::vector<std::vector<Box>> used(sources.size());
  std::vector<Box> boxes;
  for (std::size_t target = 0; target < map.targets.size(); ++target) {
    const TensorInfo& tensor = map.targets[target];
    boxes.clear();
    for (const MapPiece& piece : map.pieces_of(target)) {
      if (piece.source.value() < 0 || piece.source.index() >= sources.size())
        return broken(tensor, "a piece is of no tensor");
      const TensorInfo& source = sources[piece.source.index()];
      if (source.dtype != tensor.dtype) return broken(tensor, fmt::format("'{}' is of another type", source.name));
      if (!lies_in(piece.source_box, source.shape) || !lies_in(piece.target_box, tensor.shape) || !axes_fit(piece))
        return broken(tensor, fmt::format("piece {} of '{}' does not fit", to_string(piece), source.name));
      boxes.push_back(piece.target_box);
      used[piece.source.index()].push_back(piece.source_box);
    }
    if (!tile(boxes, Box::whole(tensor.shape))) return broken(tensor, "its pieces do not fill it exactly once");
  }
  for (const auto& [kept, left_out] : map.equal)
    if (sources[left_out.index()].shape.empty()) used[left_out.index()].push_back(Box::whole({}));
  for (const TensorId source : map.left_out) used[source.index()].push_back(Box::whole(sources[source.index()].shape));
  for (std::size_t source = 0; source < sources.size(); ++source)
    if (sources[source].shape.empty() && !used[source].empty()) used[source].resize(1);
  for (std::size_t source = 0; source < sources.size(); ++source)
    if (!tile(used[source], Box::whole(sources[source].shape)))
      return broken(sources[source], "its elements are not all used exactly once");
  return {};
}

}  // namespace tenplex
