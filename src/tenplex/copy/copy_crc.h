// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies a strided box into contiguous memory and sums what it wrote, block by block while the block is in the cache,
// so that the sum costs no second pass over memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tenplex/base/bytes.h"
#include "tenplex/ptc/dims.h"

namespace tenplex {

enum class Checksum {
  kCrc32,   ///< IEEE, as in zip files
  kCrc32c,  ///< Castagnoli, as on the wire
};

struct PackShape {
  Dims extent;          ///< elements per dimension
  Dims source_strides;  ///< bytes
  std::int64_t element_bytes = 1;
};

/// Writes the elements one after another in row-major order of `extent`; returns the checksum of what `crc_before`
/// covers, followed by the bytes written. Source and target do not overlap.
std::uint32_t pack_with_crc(Checksum checksum, std::uint32_t crc_before, std::byte* target, const std::byte* source,
                            const PackShape& shape);

/// The same for contiguous memory.
std::uint32_t copy_with_crc(Checksum checksum, std::uint32_t crc_before, std::byte* target, ByteSpan source);

}  // namespace tenplex
