// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ChunkTable: the stored chunks of a checkpoint, packed, because a checkpoint may have millions.
//
// A chunk is one box of one tensor in one file. Where its bytes start is answered by CheckpointReader::locate(), since
// some formats hide it inside a further container that is opened on first use.
//
// Value type. Cost: 24 B + 16 B per dimension and chunk. Threads: as any value.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/ptc/box.h"

namespace tenplex {

struct Chunk {
  TensorId tensor;
  DeviceId device;            ///< whose shard it is: the rank that wrote it
  std::int32_t file = 0;      ///< index into CheckpointInfo::files
  std::int64_t position = 0;  ///< bytes in the file; meaning is the format's (usually the start of the item)
  Box box;
};

class ChunkTable {
 public:
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  void reserve(std::size_t chunks, int rank);
  void add(const Chunk& chunk);
  Chunk operator[](std::size_t index) const;

 private:
  struct Entry {
    std::int64_t position;
    std::uint32_t first_dim;  // into dims_: rank offsets, then rank extents
    std::int32_t tensor;
    std::int32_t file;
    std::int32_t device_and_rank;  // device · 16 + rank
  };
  std::vector<Entry> entries_;
  std::vector<std::int64_t> dims_;
};

}  // namespace tenplex
