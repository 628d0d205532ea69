// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/mapped_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "tenplex/formats/chunk_check.h"
#include "tenplex/formats/derived_reader.h"
#include "tenplex/formats/equal_scalars.h"
#include "tenplex/formats/mapped_state.h"

namespace tenplex {
namespace {

/// Which pieces reach into a box of a source.
class PieceIndex {
 public:
  PieceIndex(const TensorMap& map, std::size_t sources) : map_(map), of_source_(sources), target_(map.pieces.size()) {
    for (std::size_t target = 0; target < map.targets.size(); ++target)
      for (std::size_t piece = map.first[target]; piece < map.first[target + 1]; ++piece) {
        target_[piece] = static_cast<std::uint32_t>(target);
        of_source_[map.pieces[piece].source.index()].pieces.push_back(static_cast<std::uint32_t>(piece));
      }
    for (Source& source : of_source_) sort(&source);
  }

  TensorId target_of(std::uint32_t piece) const { return TensorId(std::size_t{target_[piece]}); }
  std::span<const std::uint32_t> all_of(TensorId source) const { return of_source_[source.index()].pieces; }

  /// Calls visit(piece) for every piece that may reach into the box; others are few.
  template <typename Visit>
  void for_each(TensorId tensor, const Box& box, Visit&& visit) const {
    const Source& source = of_source_[tensor.index()];
    const auto begin =
        std::upper_bound(source.reached.begin(), source.reached.end(), source.axis < 0 ? -1 : box.offset[source.axis]);
    for (auto at = static_cast<std::size_t>(begin - source.reached.begin()); at < source.pieces.size(); ++at) {
      const Box& from = map_.pieces[source.pieces[at]].source_box;
      if (source.axis >= 0 && from.offset[source.axis] >= box.end(source.axis)) break;
      visit(source.pieces[at]);
    }
  }

 private:
  struct Source {
    std::vector<std::uint32_t> pieces;  // by their offset along `axis`
    int axis = -1;                      // that parts most pieces; −1 for a scalar
    std::vector<std::int64_t> reached;  // the largest end along it up to each piece
  };

  std::int64_t offset(std::uint32_t piece, int axis) const { return map_.pieces[piece].source_box.offset[axis]; }

  void sort(Source* source) const {
    if (source->pieces.empty()) return;
    const int rank = map_.pieces[source->pieces.front()].source_box.rank();
    std::size_t most = 0;
    for (int axis = 0; axis < rank; ++axis) {
      std::vector<std::int64_t> offsets;
      offsets.reserve(source->pieces.size());
      for (const std::uint32_t piece : source->pieces) offsets.push_back(offset(piece, axis));
      std::sort(offsets.begin(), offsets.end());
      const auto distinct = static_cast<std::size_t>(std::unique(offsets.begin(), offsets.end()) - offsets.begin());
      if (distinct > most) source->axis = axis;
      most = std::max(most, distinct);
    }
    const int axis = source->axis;
    if (axis >= 0)
      std::sort(source->pieces.begin(), source->pieces.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(offset(a, axis), a) < std::pair(offset(b, axis), b);
      });
    std::int64_t reached = 0;
    for (const std::uint32_t piece : source->pieces) {
      reached = std::max(reached, axis < 0 ? 0 : map_.pieces[piece].source_box.end(axis));
      source->reached.push_back(reached);
    }
  }

  const TensorMap& map_;
  std::vector<Source> of_source_;
  std::vector<std::uint32_t> target_;  // per piece
};

class MappedReader final : public DerivedReader {
 public:
  MappedReader(std::unique_ptr<CheckpointReader> stored, CheckpointInfo info, std::vector<std::uint32_t> chunks,
               TensorMap map, std::vector<std::uint32_t> pieces)
      : DerivedReader(std::move(stored), std::move(info), std::move(chunks)),
        map_(std::move(map)),
        pieces_(std::move(pieces)) {}

  Result<ChunkLocation> locate(std::size_t index) const override {
    TENPLEX_ASSIGN_OR_RETURN(const ChunkLocation stored, DerivedReader::locate(index));
    const Chunk chunk = stored_chunk(index);
    const std::optional<MapPiece> piece = clip(map_.pieces[pieces_[index]], chunk.box);
    TENPLEX_CHECK(piece.has_value());
    std::int64_t elements = 0;
    for (int axis = 0; axis < chunk.box.rank(); ++axis)
      elements += (piece->source_box.offset[axis] - chunk.box.offset[axis]) * stored.strides[axis];
    const TensorInfo& tensor = info().tensors[info().chunks[index].tensor.index()];
    const auto bytes = packed_bytes(tensor.dtype, elements);
    if (!bytes) return corrupt(fmt::format("tensor '{}': a stored chunk starts inside of a byte", tensor.name));
    ChunkLocation location{stored.offset_bytes + *bytes, Dims::filled(piece->target_box.rank(), 1), stored.checked};
    for (int axis = 0; axis < piece->target_box.rank(); ++axis) {
      const int from = piece->axes[static_cast<std::size_t>(axis)];
      if (from != kNewAxis) location.strides[axis] = stored.strides[from];
    }
    return location;
  }

 private:
  const TensorMap map_;
  const std::vector<std::uint32_t> pieces_;  // per chunk
};

/// The target that a source becomes as it is, axis by axis, or nothing.
std::optional<TensorId> renamed(const TensorMap& map, const PieceIndex& index, const TensorInfo& source, TensorId id) {
  const auto pieces = index.all_of(id);
  if (pieces.size() != 1) return std::nullopt;
  const MapPiece& piece = map.pieces[pieces.front()];
  const TensorId target = index.target_of(pieces.front());
  const Box whole = Box::whole(source.shape);
  if (piece.source_box != whole || piece.target_box != whole || map.targets[target.index()].shape != source.shape)
    return std::nullopt;
  for (int axis = 0; axis < whole.rank(); ++axis)
    if (piece.axes[static_cast<std::size_t>(axis)] != axis) return std::nullopt;
  return target;
}

void map_ties(const CheckpointInfo& stored, const TensorMap& map, const PieceIndex& index, CheckpointInfo* info) {
  const auto ties = std::exchange(info->aliases, {});
  for (const auto& [alias, original] : ties) {
    const TensorInfo& first = stored.tensors[original.index()];
    const TensorInfo& second = stored.tensors[alias.index()];
    const auto one = renamed(map, index, first, original);
    const auto other = renamed(map, index, second, alias);
    if (one && other)
      info->aliases.emplace_back(std::max(*one, *other), std::min(*one, *other));
    else
      info->problems.push_back(
          fmt::format("'{}' and '{}' are tied, what becomes of them is not", first.name, second.name));
  }
}

/// Says which tensors the map leaves out, if it does.
void note_left_out(const CheckpointInfo& stored, const TensorMap& map, CheckpointInfo* info) {
  constexpr std::size_t kNamed = 8;
  const std::size_t count = map.left_out.size();
  if (count == 0) return;
  std::string names;
  for (std::size_t at = 0; at < std::min(count, kNamed); ++at)
    names += fmt::format("{}'{}'", at == 0 ? "" : ", ", stored.tensors[map.left_out[at].index()].name);
  if (count > kNamed) names += fmt::format(" and {} more", count - kNamed);
  info->problems.push_back(
      fmt::format("{} {} left out, as the map says: {}", count, count == 1 ? "tensor is" : "tensors are", names));
}

}  // namespace

Result<std::unique_ptr<CheckpointReader>> map_checkpoint(std::unique_ptr<CheckpointReader> reader, TensorMap map) {
  const CheckpointInfo& stored = reader->info();
  TENPLEX_TRY(check_chunks(stored));
  CheckpointInfo info = stored;
  info.state = {};
  info.layout.reset();
  info.chunks = {};
  TENPLEX_TRY(map_state(stored, map, &info));
  const PieceIndex index(map, stored.tensors.size());
  map_ties(stored, map, index, &info);
  note_left_out(stored, map, &info);
  TENPLEX_TRY(check_equal_scalars(*reader, map.equal));
  std::vector<std::uint32_t> chunks;
  std::vector<std::uint32_t> pieces;
  for (std::size_t number = 0; number < stored.chunks.size(); ++number) {
    const Chunk chunk = stored.chunks[number];
    index.for_each(chunk.tensor, chunk.box, [&](std::uint32_t piece) {
      auto part = clip(map.pieces[piece], chunk.box);
      if (!part) return;
      info.chunks.add({index.target_of(piece), chunk.device, chunk.file, chunk.position, std::move(part->target_box)});
      chunks.push_back(static_cast<std::uint32_t>(number));
      pieces.push_back(piece);
    });
  }
  info.tensors = map.targets;
  return std::unique_ptr<CheckpointReader>(std::make_unique<MappedReader>(
      std::move(reader), std::move(info), std::move(chunks), std::move(map), std::move(pieces)));
}

}  // namespace tenplex
