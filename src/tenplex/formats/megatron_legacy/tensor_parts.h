// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Puts tensors together whose parts lie in the files of tensor and expert parallel ranks, as a layout says.
//
//   linear_fc1.weight   [8, 4] on tensor rank 0, [8, 4] on rank 1, gate and up each cut in two
//                       ─► [16, 4]: boxes [0:4] and [8:12] of rank 0, [4:8] and [12:16] of rank 1
//
// A pipeline stage has whole layers, so the layout is asked about a job of one stage. Of a part that several ranks
// have, the first one is read; the beginnings of the others must equal it.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/joined_reader.h"
#include "tenplex/formats/megatron_legacy/rank_folders.h"
#include "tenplex/ptc/layout.h"

namespace tenplex::megatron_legacy {

/// Where a rank's array lies in a flat tensor: from element `begin` on, row-major.
struct FlatPlace {
  std::int64_t begin = 0;
  Dims shape;
};

struct TensorPart {
  const RankFolder* rank = nullptr;
  CheckpointJoiner::Part file = 0;
  TensorId stored;
  std::optional<FlatPlace> flat;  ///< of a distributed optimizer: ranks with the same part need not all have it
};

/// A tensor of the whole model and its parts, of at least one rank.
struct PartedTensor {
  std::string name;
  std::vector<TensorPart> parts;
};

/// Adds the tensors to the joiner and returns their numbers. `sizes` are for the layout.
/// Errors: unsupported for a tensor without a rule; corrupt naming the tensor and the rank whose part is missing, of
/// another shape or type, or differs from its copy; io.
Result<std::vector<CheckpointJoiner::Number>> join_tensors(const Layout& layout, const NamedSizes& sizes,
                                                           const RankFolders& folders,
                                                           std::span<const PartedTensor> tensors,
                                                           CheckpointJoiner* joiner);

/// True if two parts have the same bytes. `max_bytes` of the beginning are compared.
Result<bool> same_bytes(const CheckpointJoiner& joiner, const TensorPart& one, const TensorPart& other,
                        std::int64_t max_bytes);

/// `size` bytes of the part from its byte `begin` on. Errors: as CheckpointJoiner::bytes().
Result<std::string> part_bytes(const CheckpointJoiner& joiner, const TensorPart& part, std::int64_t begin,
                               std::int64_t size);

}  // namespace tenplex::megatron_legacy
