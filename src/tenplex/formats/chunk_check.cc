// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/chunk_check.h"

#include <fmt/format.h>

namespace tenplex {
namespace {

Error bad_chunk(const CheckpointInfo& info, const Chunk& chunk, std::string_view why) {
  return corrupt(fmt::format("tensor '{}' of shape {}: stored chunk {} {}", info.tensors[chunk.tensor.index()].name,
                             to_string(info.tensors[chunk.tensor.index()].shape), to_string(chunk.box), why));
}

}  // namespace

Result<void> check_chunks(const CheckpointInfo& info) {
  for (const TensorInfo& tensor : info.tensors) TENPLEX_TRY(check_tensor(tensor));
  for (std::size_t i = 0; i < info.chunks.size(); ++i) {
    const Chunk chunk = info.chunks[i];
    if (chunk.tensor.value() < 0 || chunk.tensor.index() >= info.tensors.size()) {
      return corrupt(fmt::format("chunk {} belongs to no tensor", i));
    }
    const Dims& shape = info.tensors[chunk.tensor.index()].shape;
    if (chunk.box.rank() != shape.rank()) return bad_chunk(info, chunk, "has another rank");
    for (int dim = 0; dim < shape.rank(); ++dim) {
      const std::int64_t offset = chunk.box.offset[dim];
      const std::int64_t extent = chunk.box.extent[dim];
      if (offset < 0 || extent < 0 || offset > shape[dim] || extent > shape[dim] - offset) {
        return bad_chunk(info, chunk, "lies outside");
      }
    }
    if (chunk.file < 0 || static_cast<std::size_t>(chunk.file) >= info.files.size()) {
      return bad_chunk(info, chunk, "lies in no file");
    }
  }
  return {};
}

}  // namespace tenplex
