// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the optimizers of all ranks have of each parameter: in the file of the rank's model, where the optimizer numbers
// its parameters (optimizer_slots.h), or flat beside it (distributed_slots.h).
//
//   optimizer.state.exp_avg.decoder.layers.3.mlp.linear_fc2.weight  ◄─ a tensor in the file of each rank of that stage
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
#include "tenplex/formats/megatron_legacy/distributed_slots.h"
#include "tenplex/formats/megatron_legacy/optimizer_slots.h"
#include "tenplex/formats/megatron_legacy/rank_model.h"
#include "tenplex/formats/megatron_legacy/tensor_parts.h"

namespace tenplex::megatron_legacy {

struct RankFile {
  const RankFolder* rank = nullptr;
  CheckpointJoiner::Part file = 0;
  RankModel model;
  std::vector<OwnParameter> parameters;
};

struct NamedPart {
  std::string name;  ///< "optimizer.state.SLOT.PARAMETER"
  TensorPart part;
};

class LegacyOptimizers {
 public:
  /// `order`: the names of the optimizers' parameters in the order of the model; empty: that of the files.
  LegacyOptimizers(FileSystem& files, std::string folder, std::vector<std::string> order, CheckpointJoiner* joiner)
      : files_(files), folder_(std::move(folder)), order_(std::move(order)), joiner_(*joiner) {}

  /// Slots of all parameters of all ranks, of which `stages` follow each other. Errors: unsupported or corrupt, naming
  /// the file and what does not fit; io.
  Result<std::vector<NamedPart>> read(std::vector<RankFile>& ranks, std::int64_t stages);

  /// Takes what read() found out of a copy of the first rank's tree, and says in it what is the same for all
  /// parameters, as Megatron-Core's distributed checkpoints do. `optimizer` is the value of that key.
  void tidy(StateGraph* common, NodeId optimizer) const;

 private:
  const CheckpointInfo& stored(const RankFile& rank) const { return joiner_.stored(rank.file); }
  Result<void> order_parameters(std::vector<RankFile>* ranks, bool shares_embeddings) const;
  Result<void> add_slots(const RankFile& rank, NodeId optimizer);
  Result<void> add_flat_slots(const RankFile& rank, const std::string& path, const BucketNotes& notes);
  Result<void> check_master(const OwnParameter& parameter, const TensorPart& values, const TensorPart& masters) const;
  Result<void> add_step(const TensorPart& step);
  Result<void> add_step(const RankFile& rank, std::int64_t step);
  void add_common_step(StateGraph* common, NodeId optimizer) const;

  FileSystem& files_;
  std::string folder_;
  std::vector<std::string> order_;
  CheckpointJoiner& joiner_;
  std::vector<NamedPart> parts_;
  bool is_distributed_ = false;
  std::optional<TensorPart> step_;           // of all parameters, stored as a tensor
  std::optional<std::int64_t> step_number_;  // or as a number
};

}  // namespace tenplex::megatron_legacy
