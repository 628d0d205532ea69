// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ChunkTable: the stored chunks of a checkpoint, packed, because a checkpoint may have millions.
//
// A chunk is one box of one tensor in one file. Where its bytes start is answered by CheckpointReader::locate(), since
// some formats hide it inside a further container that is opened on first use.
//
// Most boxes are like many others, so each list of offsets and of extents is kept once.
//
// Value type. Cost: 32 B per chunk, and at most 16 B per dimension + 28 B for those whose box is like no other.
// Threads: as any value.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/formats/dims_pool.h"
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
  void reserve(std::size_t chunks) { entries_.reserve(chunks); }
  void add(const Chunk& chunk);
  Chunk operator[](std::size_t index) const;

 private:
  struct Entry {
    std::int64_t position;
    std::uint32_t offset;  // in dims_
    std::uint32_t extent;
    std::int32_t tensor;
    std::int32_t file;
    std::int32_t device;
  };
  std::vector<Entry> entries_;
  DimsPool dims_;
};

}  // namespace tenplex
