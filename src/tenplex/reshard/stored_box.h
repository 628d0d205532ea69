// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// StoredBox: a box on its way from a file into memory, both ends as strided byte arrays.
//
// Value type.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/reshard/source_collection.h"
#include "tenplex/reshard/unit.h"

namespace tenplex {

struct StoredBox {
  TensorId tensor;
  std::int32_t file = 0;
  std::int64_t unit_bytes = 1;
  std::int64_t position = 0;  ///< in the file, of the first unit
  Dims extent;                ///< units
  Dims file_strides;          ///< bytes
  std::byte* memory = nullptr;
  Dims memory_strides;  ///< bytes
  std::optional<CheckedRange> item;

  std::int64_t bytes() const { return volume(extent) * unit_bytes; }
  std::int64_t span() const { return span_bytes(extent, file_strides, unit_bytes); }
  std::int64_t end() const { return position + span(); }
  bool contiguous_in_file() const { return is_contiguous(extent, file_strides, unit_bytes); }
  bool contiguous_in_memory() const { return is_contiguous(extent, memory_strides, unit_bytes); }

  /// The part [begin, end) along one dimension.
  StoredBox part(int dim, std::int64_t begin, std::int64_t end) const;

  /// The dimension with the largest steps in the file, among those of more than one unit; −1 if there is none.
  int widest_dim() const;

  /// Copies the box out of `bytes`, which hold the file from `begin` on.
  void copy_from(const std::byte* bytes, std::int64_t begin) const;
};

/// Where the box of a chunk lies. `box` is in units, inside the chunk's. Errors: as CheckpointReader::locate();
/// corrupt if it would lie outside the file.
Result<StoredBox> locate_box(const CheckpointReader& reader, std::size_t chunk, const Unit& unit, const Box& box);

}  // namespace tenplex
