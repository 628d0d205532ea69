// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ByteSink: one new file being written.
//
// Resource. Threads: write_at calls on disjoint ranges are safe together.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tenplex/base/bytes.h"
#include "tenplex/base/result.h"

namespace tenplex {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  ByteSink(const ByteSink&) = delete;
  ByteSink& operator=(const ByteSink&) = delete;

  /// Writes all of `bytes` at `offset`. Errors: resource_exhausted when the disk is full, io.
  virtual Result<void> write_at(std::int64_t offset, ByteSpan bytes) = 0;

  /// Writes the parts one behind the other, from `offset` on; may take one call for many. Errors: as write_at().
  virtual Result<void> write_parts_at(std::int64_t offset, std::span<const ByteSpan> parts) {
    for (const ByteSpan part : parts) {
      TENPLEX_TRY(write_at(offset, part));
      offset += static_cast<std::int64_t>(part.size());
    }
    return {};
  }

  /// Makes what was written durable (fsync) and closes the file. Errors: resource_exhausted, io.
  virtual Result<void> finish() = 0;

  /// Closes the file without making it durable. Errors: io.
  virtual Result<void> close() = 0;

  virtual const std::string& name() const = 0;

 protected:
  ByteSink() = default;
};

}  // namespace tenplex
