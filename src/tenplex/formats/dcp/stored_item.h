// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// An item of a data file: a torch.save archive at [offset, offset + length). Only its ends are read: at most 4 KiB for
// the usual tensor, whatever its size.
//
// Value types. Threads: functions without shared state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/dcp/catalog.h"
#include "tenplex/formats/torch/torch_pickle_reader.h"

namespace tenplex::dcp {

/// An archive's pickle, and where its storages lie in the file.
struct StoredItem {
  TorchPickle pickle;
  std::vector<CheckedRange> storages;  ///< as pickle.storages; crc32 0 = none
  /// What lies in front of the first storage's data, and 16 bytes behind them; empty if it is long or if pickle and
  /// byte order are not in it.
  std::string head;
  std::string descriptor;

  /// Where tensor `index` of the pickle lies in the file.
  ChunkLocation location(std::size_t index) const;
};

/// True if an archive starts there; false for a safetensors payload. Errors: io.
Result<bool> is_archive(const ByteSource& file, const ItemRange& range);

/// Errors: corrupt, unsupported, io; resource_exhausted if its pickle is larger than `max_pickle_bytes`.
Result<StoredItem> read_item(const ByteSource& file, const ItemRange& range, std::int64_t max_pickle_bytes);

}  // namespace tenplex::dcp
