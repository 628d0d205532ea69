// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The safetensors payload of a data file: one blob with all its tensors, keyed by name, from a position to the file's
// end. Its metadata repeat the offsets of each chunk.
//
// Value type. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/safetensors/header.h"

namespace tenplex::dcp {

class SafetensorsPayload {
 public:
  /// Errors: corrupt, unsupported, io.
  static Result<SafetensorsPayload> open(const ByteSource& file, std::int64_t position, std::int64_t max_bytes);

  /// Where the tensor's box lies. Errors: corrupt if the blob has it not, or another box or type under its name.
  Result<ChunkLocation> locate(std::string_view name, DType dtype, const Box& box) const;

 private:
  struct Entry {
    safetensors::HeaderTensor tensor;
    std::optional<Dims> offsets;  ///< as the metadata say
  };

  std::vector<Entry> entries_;  ///< by name
  std::int64_t data_begin_ = 0;
};

}  // namespace tenplex::dcp
