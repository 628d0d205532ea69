// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank of a legacy Megatron checkpoint has of the model.
//
//   {"model": {"decoder.layers.0.….weight": tensor, "…._extra_state": None}, "args": …, "iteration": 1000, …}
//   with virtual stages: "model0", "model1", …
//
// Value type; borrows the file's tree. Threads: as any value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/megatron/global_names.h"

namespace tenplex::megatron_legacy {

inline constexpr std::string_view kWordEmbeddings = "embedding.word_embeddings.weight";
inline constexpr std::string_view kHeadWeight = "output_layer.weight";

struct ModelEntry {
  megatron::NumberedName name;
  NodeId node = kNoNode;
};

/// A stage, or one of the virtual stages of a rank.
struct ModelChunk {
  std::vector<ModelEntry> entries;
  std::map<std::string_view, std::int64_t> layers;  ///< by stack: as many as there are
};

struct RankModel {
  std::vector<ModelChunk> chunks;
  std::int64_t experts = 0;  ///< that it has of each layer
};

/// Errors: unsupported for a model of before Megatron-Core; corrupt naming a layer that is missing, or for another
/// structure.
Result<RankModel> read_rank_model(const CheckpointInfo& file);

/// The number that args has under a name. True is 1.
std::optional<std::int64_t> argument(const CheckpointInfo& file, std::string_view name);

}  // namespace tenplex::megatron_legacy
