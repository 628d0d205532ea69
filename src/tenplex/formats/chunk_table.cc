// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/chunk_table.h"

namespace tenplex {

void ChunkTable::reserve(std::size_t chunks, int rank) {
  entries_.reserve(chunks);
  dims_.reserve(chunks * 2 * static_cast<std::size_t>(rank));
}

void ChunkTable::add(const Chunk& chunk) {
  TENPLEX_CHECK(dims_.size() < 0xffff0000U);
  entries_.push_back({chunk.position, static_cast<std::uint32_t>(dims_.size()), chunk.tensor.value(), chunk.file,
                      chunk.device.value() * 16 + chunk.box.rank()});
  dims_.insert(dims_.end(), chunk.box.offset.begin(), chunk.box.offset.end());
  dims_.insert(dims_.end(), chunk.box.extent.begin(), chunk.box.extent.end());
}

Chunk ChunkTable::operator[](std::size_t index) const {
  const Entry& entry = entries_[index];
  const auto rank = static_cast<std::size_t>(entry.device_and_rank % 16);
  const std::span<const std::int64_t> dims(dims_.data() + entry.first_dim, 2 * rank);
  return {TensorId(entry.tensor),
          DeviceId(entry.device_and_rank / 16),
          entry.file,
          entry.position,
          {Dims(dims.first(rank)), Dims(dims.last(rank))}};
}

}  // namespace tenplex
