// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// From the tables of `.metadata` to tensors and chunks that can be trusted: every number is checked against the others
// and against the sizes of the files.
//
//   names, element types, shapes   ─► TensorInfo
//   chunks and their items         ─► ChunkTable + lengths; chunks cover each tensor exactly once
//
// Empty chunks hold nothing and are left out; a tensor without elements keeps one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/chunk_table.h"
#include "tenplex/formats/dcp/metadata.h"
#include "tenplex/formats/file_pool.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex::dcp {

/// A range of a data file.
struct ItemRange {
  std::int32_t file = 0;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

struct Catalog {
  std::vector<TensorInfo> tensors;
  std::vector<bool> requires_grad;  ///< one per tensor
  ChunkTable chunks;
  std::vector<std::int64_t> lengths;  ///< of the item of each chunk, bytes
  std::vector<ItemRange> byte_items;  ///< one per MetadataTables::byte_items
  std::vector<std::string> files;     ///< relative paths; the numbers are those of the pool
  int device_count = 1;
};

/// Opens the data files into `pool` and checks everything.
/// Errors: corrupt naming the tensor and the box, unsupported for stream transforms and for ranks above kMaxRank, and
/// what opening the files gave.
Result<Catalog> build_catalog(const MetadataTables& tables, FilePool& pool);

/// 3 for "__3_0.distcp" (and "sub/__3_0.distcp"); 0 for any other name.
DeviceId device_of_file(std::string_view relative_path);

}  // namespace tenplex::dcp
