// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The `.metadata` of a DCP folder as packed tables. The pickle is read in one pass; every ChunkStorageMetadata,
// MetadataIndex and _StorageInfo goes into a table as soon as it is complete, so that a million chunks cost tens of
// bytes each and not a million objects.
//
//   state_dict_metadata ─► tensors (name, dtype, shape, a run of chunks), byte_items
//   storage_data        ─► items (file, offset, length), joined to their chunk or byte item
//   planner_data        ─► paths
//   all_local_plans     ─► passed over: what Megatron-Core keeps there repeats the rest
//
// Of the document, only the atoms stay.
//
// What is checked here: types, names that repeat, and that every chunk has one item. What the numbers say is checked by
// the catalog (catalog.h). Source: torch/distributed/checkpoint/{metadata,filesystem}.py; docs/formats/dcp.md.
//
// Resource with value-like behaviour: movable. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/dcp/planned_paths.h"
#include "tenplex/formats/dims_pool.h"
#include "tenplex/formats/pickle/pickle_document.h"
#include "tenplex/io/byte_source.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex::dcp {

inline constexpr std::uint32_t kNoItem = 0xffffffff;

struct ItemRecord {
  NodeId path = kNoNode;  ///< text atom
  bool transformed = false;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

struct ChunkRecord {
  std::uint32_t offsets = 0;  ///< in MetadataTables::dims
  std::uint32_t sizes = 0;
  std::uint32_t item = kNoItem;
};

struct TensorRecord {
  NodeId name = kNoNode;  ///< text atom
  DType dtype = DType::kFloat32;
  bool requires_grad = false;
  std::uint32_t shape = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t chunk_count = 0;
};

struct ByteRecord {
  NodeId name = kNoNode;
  std::uint32_t item = kNoItem;
};

struct MetadataTables {
  PickleDocument document;
  DimsPool dims;
  std::vector<TensorRecord> tensors;  ///< in the order of the file
  PagedList<ChunkRecord> chunks;
  std::vector<ByteRecord> byte_items;
  PagedList<ItemRecord> items;
  PlannedPaths paths;
  std::string version;  ///< of DCP, empty where the file does not say
  /// The first tensor that Megatron-Core (before 0.14) stored as pieces of a flat array in another shape; else empty.
  std::string reformulated;
  std::vector<std::string> problems;  ///< odd but readable

  /// Drops the chunks and items, once they are in a catalog.
  void forget_chunks() {
    dims = {};
    chunks = {};
    items = {};
  }
  /// Text of an atom that a record refers to.
  std::string_view text(NodeId atom) const { return *document.text(atom); }
};

/// Reads the whole source. Errors: resource_exhausted if it is larger than `max_bytes`; corrupt, unsupported, io.
Result<MetadataTables> read_metadata(const ByteSource& source, std::int64_t max_bytes);

}  // namespace tenplex::dcp
