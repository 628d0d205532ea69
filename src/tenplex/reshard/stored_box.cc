// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/stored_box.h"

#include <fmt/format.h>

#include "tenplex/copy/strided_copy.h"

namespace tenplex {

StoredBox StoredBox::part(int dim, std::int64_t begin, std::int64_t end) const {
  StoredBox part = *this;
  part.extent[dim] = end - begin;
  part.position += begin * file_strides[dim];
  part.memory += begin * memory_strides[dim];
  return part;
}

int StoredBox::widest_dim() const {
  int widest = -1;
  for (int dim = 0; dim < extent.rank(); ++dim)
    if (extent[dim] > 1 && (widest < 0 || file_strides[dim] > file_strides[widest])) widest = dim;
  return widest;
}

void StoredBox::copy_from(const std::byte* bytes, std::int64_t begin) const {
  strided_copy(memory, bytes + (position - begin), {extent, memory_strides, file_strides, unit_bytes});
}

Result<StoredBox> locate_box(const CheckpointReader& reader, std::size_t chunk, const Unit& unit, const Box& box) {
  const CheckpointInfo& info = reader.info();
  const Chunk stored = info.chunks[chunk];
  const auto context = [&] {
    return fmt::format("file '{}': tensor '{}': chunk {}", info.files[static_cast<std::size_t>(stored.file)],
                       info.tensors[stored.tensor.index()].name, to_string(stored.box));
  };
  // The context is made only when it is needed: this runs once per box.
  auto located = reader.locate(chunk);
  if (!located) return std::move(located).error().with_context(context());
  const ChunkLocation& location = *located;
  if (location.strides.rank() != box.rank()) return internal_error(context() + ": strides of another rank");
  auto whole = in_units(unit, stored.box);
  if (!whole) return std::move(whole).error().with_context(context());
  auto view = in_bytes(unit, unit.source_bytes, whole->extent, 0, location.strides);
  if (!view) return std::move(view).error().with_context(context());
  StoredBox result;
  result.tensor = stored.tensor;
  result.file = stored.file;
  result.unit_bytes = unit.source_bytes;
  result.position = location.offset_bytes + offset_of(box.offset, whole->offset, view->strides);
  result.extent = box.extent;
  result.file_strides = view->strides;
  result.item = location.checked;
  return result;
}

}  // namespace tenplex
