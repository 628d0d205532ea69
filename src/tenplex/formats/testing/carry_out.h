// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Carries out a small OutputPlan in memory, for tests of writers: bytes of every whole tensor in, files out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Files by path ("" = the target itself; "objects:" before paths in the folder of objects). `whole[t]` holds all
/// elements of tensor t, row-major; extra files get `extra[i]`. Padding is filled with '.'.
inline std::map<std::string, std::string> carry_out(const OutputPlan& plan, const CheckpointWriter& writer,
                                                    const Collection& target, const std::vector<std::string>& whole,
                                                    const std::vector<std::string>& extra = {}) {
  const auto local_array = [&](const Segment& segment) {
    SubTensor shard;
    target.shard(segment.tensor, segment.shard, &shard);
    const TensorInfo& tensor = target.tensors()[segment.tensor.index()];
    const auto width = static_cast<std::size_t>(size_bytes(tensor.dtype));
    std::string bytes(static_cast<std::size_t>(volume(shard.local_shape)) * width, '.');
    const Dims global_strides = row_major_strides(tensor.shape);
    for (const Piece& piece : shard.pieces) {
      for (std::int64_t k = 0; k < volume(piece.box); ++k) {
        std::int64_t from = 0;
        std::int64_t to = piece.local_offset;
        std::int64_t rest = k;
        for (int dim = piece.box.rank(); dim-- > 0;) {
          const std::int64_t index = rest % piece.box.extent[dim];
          rest /= piece.box.extent[dim];
          from += (piece.box.offset[dim] + index) * global_strides[dim];
          to += index * piece.local_strides[dim];
        }
        bytes.replace(static_cast<std::size_t>(to) * width, width, whole[segment.tensor.index()],
                      static_cast<std::size_t>(from) * width, width);
      }
    }
    return bytes;
  };
  const auto content = [&](const OutputFile& file, std::int32_t index) {
    std::string bytes;
    for (std::size_t k = 0; k < file.segments.size(); ++k) {
      const Segment& segment = file.segments[k];
      switch (segment.kind) {
        case Segment::Kind::kLiteral:
          bytes += writer.literal(index, k, {}).value();
          break;
        case Segment::Kind::kExtra:
          bytes += extra[static_cast<std::size_t>(segment.shard)];
          break;
        case Segment::Kind::kPiece:
          bytes += whole[segment.tensor.index()];
          break;
        default:
          bytes += local_array(segment);
          break;
      }
      std::int64_t expected = 0;
      for (std::size_t before = 0; before <= k; ++before) expected += file.segments[before].size_bytes;
      TENPLEX_CHECK(std::int64_t(bytes.size()) == expected);
    }
    return bytes;
  };
  std::map<std::string, std::string> files;
  for (std::size_t k = 0; k < plan.files.size(); ++k)
    files[(plan.files[k].in_objects_folder ? "objects:" : "") + plan.files[k].path] =
        content(plan.files[k], static_cast<std::int32_t>(k));
  if (plan.manifest) files[plan.manifest->path] = content(*plan.manifest, -1);
  return files;
}

}  // namespace tenplex
