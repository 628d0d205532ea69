// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ModelTree: puts the tree of a DeepSpeed checkpoint together.
//
//   {"words.weight": …, "seen": …,                    in the order of 'module' in the model's file, or by layer
//    "optimizer.state.fp32_param.words.weight": …,    by parameter
//    "common": {"model_states": …, …}}
//
// Where several ranks have the model's states, what they share is one, and what differs is kept under common.ranks.
// "common" then says what it would say of the whole model on one model parallel rank.
//
// A resource. Threads: as CheckpointJoiner.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/formats/deepspeed/expert_tensors.h"
#include "tenplex/formats/deepspeed/layer_tensors.h"
#include "tenplex/formats/deepspeed/model_parts.h"
#include "tenplex/formats/deepspeed/module_tensors.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

/// In the model's states of a universal checkpoint that we wrote: what of "common" has no place of its own there.
inline constexpr std::string_view kCommonKey = "tenplex_common";

class ModelTree {
 public:
  using Part = CheckpointJoiner::Part;

  struct Files {
    std::vector<std::vector<Part>> models;  ///< by model rank, and of each one file or one per data parallel rank
    std::vector<Part> experts;              ///< of MoE layers
    std::vector<LayerParts> layers;         ///< of a pipeline
    std::size_t data_ranks = 1;
  };

  /// Errors: corrupt for another structure; unsupported for several tensor parallel ranks without
  /// universal_checkpoint_info.
  static Result<std::unique_ptr<ModelTree>> make(Files files, CheckpointJoiner* joiner);
  ModelTree(const ModelTree&) = delete;
  ModelTree& operator=(const ModelTree&) = delete;

  const ModelFiles& files() const { return *files_; }
  ParameterGroups& groups() { return parts_->groups(); }
  const ParameterGroups& stage_groups(std::size_t stage) const { return parts_->stage_groups(stage); }
  Part model_part() const { return files_->part(0, 0); }
  const CheckpointInfo& model_file() const { return files_->first(); }
  NodeId item(std::string_view key) const { return files_->item(key); }
  /// As ModuleTensors::tensor().
  Result<std::optional<CheckpointJoiner::Number>> module_tensor(const std::string& name) {
    return module_->tensor(name);
  }

  /// The number of data parallel ranks that the model's file says. Errors: corrupt.
  Result<std::int64_t> data_ranks() const;

  /// Under common. Requires: `node` is one of the joiner's state.
  void add_common(std::string key, NodeId node) { common_.emplace_back(std::move(key), node); }
  /// Under common.ranks.<rank>.
  void add_of_rank(DeviceId rank, std::string key, NodeId node) { of_ranks_.add(rank.value(), std::move(key), node); }

  /// Once. Requires: the slots of groups() are filled. Errors: corrupt, naming parameter and file.
  Result<std::unique_ptr<CheckpointReader>> finish(CheckpointInfo info);

 private:
  explicit ModelTree(CheckpointJoiner* joiner) : joiner_(joiner) {}

  Result<void> add_tensors();
  Result<void> check_complete() const;
  void add_slots();
  void add_model_states();

  CheckpointJoiner* joiner_;
  std::optional<ModelFiles> files_;
  std::optional<ModelParts> parts_;
  std::optional<ModuleTensors> module_;
  std::optional<ExpertTensors> experts_;
  std::optional<LayerTensors> layers_;
  bool has_experts_ = false;
  std::vector<NamedNode> top_;
  std::vector<NamedNode> objects_;  // of 'module', from files of layers
  std::vector<NamedNode> common_;
  RankNotes of_ranks_;
};

}  // namespace tenplex::deepspeed
