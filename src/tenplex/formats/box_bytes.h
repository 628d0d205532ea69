// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// BoxBytes: reads small boxes of a checkpoint's tensors, whatever chunks they lie in. For looking at values, not for
// moving them. Borrows the reader. Cost: 4 B per chunk. Threads: safe together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

class BoxBytes {
 public:
  /// Requires: check_chunks() gives no error.
  explicit BoxBytes(const CheckpointReader& reader);

  /// The box's elements in row-major order. Requires: the box is in the tensor, and elements fill whole bytes.
  /// Errors: corrupt if an element is stored nowhere, or as CheckpointReader::locate(); io.
  Result<std::string> read(TensorId tensor, const Box& box) const;

 private:
  Result<void> read_chunk(std::uint32_t number, const Box& box, std::string* bytes, std::vector<bool>* is_read) const;

  const CheckpointReader& reader_;
  std::vector<std::uint32_t> first_;  // per tensor and one more: index into order_
  std::vector<std::uint32_t> order_;  // chunks by tensor
};

}  // namespace tenplex
