// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/chunk_table.h"

namespace tenplex {

void ChunkTable::add(const Chunk& chunk) {
  const std::uint32_t offset = dims_.intern(chunk.box.offset.span());
  entries_.push_back({chunk.position, offset, dims_.intern(chunk.box.extent.span()), chunk.tensor.value(), chunk.file,
                      chunk.device.value()});
}

Chunk ChunkTable::operator[](std::size_t index) const {
  const Entry& entry = entries_[index];
  return {TensorId(entry.tensor),
          DeviceId(entry.device),
          entry.file,
          entry.position,
          {Dims(dims_[entry.offset]), Dims(dims_[entry.extent])}};
}

}  // namespace tenplex
