// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/check_fills.h"

#include <fmt/format.h>

#include <string_view>

#include "tenplex/plan/box_sweep.h"

namespace tenplex {
namespace {

bool piece_addresses(const Piece& piece, const Piece& part) {
  if (piece.box.rank() != part.box.rank()) return false;
  std::int64_t offset = piece.local_offset;
  for (int dim = 0; dim < part.box.rank(); ++dim) {
    if (part.box.offset[dim] < piece.box.offset[dim] ||
        part.box.offset[dim] + part.box.extent[dim] > piece.box.offset[dim] + piece.box.extent[dim])
      return false;
    offset += (part.box.offset[dim] - piece.box.offset[dim]) * piece.local_strides[dim];
  }
  return part.local_offset == offset && part.local_strides == piece.local_strides;
}

}  // namespace

bool addresses(const SubTensor& shard, const Piece& part, std::size_t* hint) {
  const std::size_t count = shard.pieces.size();
  for (std::size_t tried = 0; tried < count; ++tried) {
    const std::size_t at = (*hint + tried) % count;
    if (!piece_addresses(shard.pieces[at], part)) continue;
    *hint = at;
    return true;
  }
  return false;
}

Result<void> check_fills(const Collection& source, TensorId tensor, const SubTensor& target,
                         const std::vector<Fill>& fills) {
  const auto wrong = [&](const Box& box, std::string_view what) {
    return internal_error(
        fmt::format("plan: tensor '{}' box {}: {}", source.tensors()[tensor.index()].name, to_string(box), what));
  };
  SubTensor held;
  std::int64_t held_number = -1;
  std::size_t source_hint = 0;
  std::size_t target_hint = 0;
  std::int64_t elements = 0;
  std::vector<SweptBox> boxes;
  boxes.reserve(fills.size());
  for (const Fill& fill : fills) {
    const Box& box = fill.target.box;
    if (fill.source.box != box) return wrong(box, "source and target boxes differ");
    if (fill.source_shard < 0 || fill.source_shard >= source.shard_count(tensor))
      return wrong(box, "the source shard does not exist");
    if (box.empty()) return wrong(box, "the box is empty");
    if (!addresses(target, fill.target, &target_hint))
      return wrong(box, "the target address is not the box's in the target");
    if (fill.source_shard != held_number) source.shard(tensor, fill.source_shard, &held);
    held_number = fill.source_shard;
    if (!addresses(held, fill.source, &source_hint))
      return wrong(box, "the source address is not the box's in the source shard");
    elements += volume(box);
    boxes.push_back({&box, false});
  }
  std::int64_t expected = 0;
  for (const Piece& piece : target.pieces) expected += volume(piece.box);
  if (const auto pair = find_overlap(boxes)) return wrong(*boxes[pair->second].box, "filled twice");
  if (elements != expected)
    return wrong(Box::whole(source.tensors()[tensor.index()].shape),
                 fmt::format("{} of the sub-tensor's {} elements are filled", elements, expected));
  return {};
}

}  // namespace tenplex
