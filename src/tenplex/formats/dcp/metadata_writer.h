// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The `.metadata` pickle of a folder, protocol 4, in parts that are made when they are asked for, so that a folder of a
// million chunks needs no memory for it.
//
//   part 0      every class, field name, element type and file name, put into the memo and popped
//   parts 1 …   state_dict_metadata | planner_data | storage_data, cut between two chunks or leaves
//   last part   the rest
//
// No part adds to the memo after part 0, so each can be made without those before it.
//
// Resource; borrows the items. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/formats/dcp/output_items.h"
#include "tenplex/formats/pickle/pickle_writer.h"

namespace tenplex::dcp {

class MetadataWriter {
 public:
  /// Lays the parts out. `items` outlives this object and does not change.
  explicit MetadataWriter(const OutputItems& items);
  MetadataWriter(const MetadataWriter&) = delete;
  MetadataWriter& operator=(const MetadataWriter&) = delete;

  std::size_t part_count() const { return parts_.size(); }
  std::int64_t part_size(std::size_t part) const { return parts_[part].size_bytes; }
  std::string part(std::size_t part) const;
  /// to_string(Hash128) of all parts, one after another.
  std::string checksum() const { return to_string(hasher_.finish()); }

 private:
  enum class Section : std::uint8_t { kOpening, kTensors, kPaths, kStorage, kClosing };
  struct Part {
    Section section = Section::kOpening;
    std::int64_t first = 0;  ///< unit of the section
    std::int64_t last = 0;
    std::int64_t size_bytes = 0;
    std::string text;  // kept from the layout while there is room
  };
  // Memo indexes of part 0.
  struct Memo {
    std::uint32_t size, chunk, tensor, properties, bytes, index, storage;
    std::uint32_t layout, memory_format;
    std::uint32_t key_properties, key_size, key_chunks, key_offsets, key_sizes;
    std::uint32_t key_fqn, key_index, key_offset, key_path, key_length;
    std::vector<std::uint32_t> dtypes;  // by DType
    std::vector<std::uint32_t> files;
  };
  struct Position {
    std::size_t leaf;
    std::int64_t item;  // of the leaf
  };

  std::string make_opening();
  void lay_out(Section section, std::int64_t units);
  void add_part(const Part& part, std::string text);
  Position position(std::int64_t unit) const;
  void write_unit(PickleWriter& out, Section section, std::int64_t unit, SubTensor* scratch) const;
  void write_tensor_unit(PickleWriter& out, const Position& at, SubTensor* scratch) const;
  void write_path_unit(PickleWriter& out, std::size_t leaf) const;
  void write_storage_unit(PickleWriter& out, const Position& at, SubTensor* scratch) const;
  void write_size(PickleWriter& out, const Dims& dims) const;

  const OutputItems& items_;
  Memo memo_{};
  std::string opening_;
  std::vector<std::int64_t> first_unit_;  // per leaf, and the total
  std::vector<Part> parts_;
  std::int64_t kept_bytes_ = 0;
  Hasher hasher_;  // of all parts, in order
};

}  // namespace tenplex::dcp
