// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/box_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

namespace tenplex {
namespace {

/// Calls `visit(index)` with the indexes of every row of the box: all dimensions but the last.
Result<void> each_row(const Box& box, const std::function<Result<void>(const Dims& index)>& visit) {
  const int dims = box.rank() - 1;
  Dims index = Dims::filled(box.rank(), 0);
  while (true) {
    TENPLEX_TRY(visit(index));
    int dim = dims - 1;
    while (dim >= 0 && ++index[dim] == box.extent[dim]) index[dim--] = 0;
    if (dim < 0) return {};
  }
}

}  // namespace

BoxBytes::BoxBytes(const CheckpointReader& reader) : reader_(reader), first_(reader.info().tensors.size() + 1, 0) {
  const ChunkTable& chunks = reader.info().chunks;
  std::vector<std::uint32_t> tensor_of(chunks.size());
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    tensor_of[index] = static_cast<std::uint32_t>(chunks[index].tensor.index());
    ++first_[tensor_of[index] + 1];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  order_.resize(chunks.size());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t index = 0; index < chunks.size(); ++index)
    order_[next[tensor_of[index]]++] = static_cast<std::uint32_t>(index);
}

Result<std::string> BoxBytes::read(TensorId tensor, const Box& box) const {
  std::string bytes(static_cast<std::size_t>(volume(box) * size_bytes(reader_.info().tensors[tensor.index()].dtype)),
                    '\0');
  std::vector<bool> is_read(static_cast<std::size_t>(volume(box)), false);
  for (std::uint32_t at = first_[tensor.index()]; at < first_[tensor.index() + 1]; ++at)
    TENPLEX_TRY(read_chunk(order_[at], box, &bytes, &is_read));
  const auto missing = std::count(is_read.begin(), is_read.end(), false);
  if (missing == 0) return bytes;
  return corrupt(fmt::format("tensor '{}': {} of the {} elements of {} are stored nowhere",
                             reader_.info().tensors[tensor.index()].name, missing, volume(box), to_string(box)));
}

Result<void> BoxBytes::read_chunk(std::uint32_t number, const Box& box, std::string* bytes,
                                  std::vector<bool>* is_read) const {
  const Chunk chunk = reader_.info().chunks[number];
  const std::optional<Box> part = box.rank() == 0 ? chunk.box : intersect(chunk.box, box);
  if (!part || volume(*part) == 0) return {};
  TENPLEX_ASSIGN_OR_RETURN(const ChunkLocation location, reader_.locate(number));
  TENPLEX_ASSIGN_OR_RETURN(const ByteSource* file, reader_.file(chunk.file));
  const std::int64_t element = size_bytes(reader_.info().tensors[chunk.tensor.index()].dtype);
  const Dims to = row_major_strides(box.extent);
  const int last = box.rank() - 1;
  const std::int64_t columns = last < 0 ? 1 : part->extent[last];
  const std::int64_t step = last < 0 ? 1 : location.strides[last];
  const std::int64_t run = step == 1 ? columns : 1;
  return each_row(*part, [&](const Dims& index) -> Result<void> {
    std::int64_t from = 0;
    std::int64_t into = 0;
    for (int dim = 0; dim <= last; ++dim) {
      from += (part->offset[dim] + index[dim] - chunk.box.offset[dim]) * location.strides[dim];
      into += (part->offset[dim] + index[dim] - box.offset[dim]) * to[dim];
    }
    for (std::int64_t column = 0; column < columns; column += run) {
      const std::span<char> buffer(bytes->data() + (into + column) * element, static_cast<std::size_t>(run * element));
      TENPLEX_TRY(
          file->read_at(location.offset_bytes + (from + column * step) * element, std::as_writable_bytes(buffer)));
    }
    std::fill_n(is_read->begin() + into, columns, true);
    return {};
  });
}

}  // namespace tenplex
