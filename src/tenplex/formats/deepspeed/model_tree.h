// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ModelTree: puts the tree of a DeepSpeed checkpoint together.
//
//   {"words.weight": …, "seen": …,                    in the order of 'module' in the model's file
//    "optimizer.state.fp32_param.words.weight": …,    by parameter
//    "common": {"model_states": …, …}}
//
// A parameter that 'module' holds only the empty place of (ZeRO-3) is the float32 master. Where several ranks have the
// model's states, what they share is one, and what differs is kept under common.ranks.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/formats/deepspeed/parameter_groups.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

/// In the model's states of a universal checkpoint that we wrote: what of "common" has no place of its own there.
inline constexpr std::string_view kCommonKey = "tenplex_common";

class ModelTree {
 public:
  using Part = CheckpointJoiner::Part;

  /// `models` are the files of the model, by rank. Errors: corrupt for another structure.
  static Result<ModelTree> make(std::vector<Part> models, CheckpointJoiner* joiner);

  ParameterGroups& groups() { return groups_; }
  Part model_part() const { return models_[0]; }
  const CheckpointInfo& model_file() const { return joiner_->stored(models_[0]); }
  NodeId item(std::string_view key) const;

  /// The number of data parallel ranks that the model's file says. Errors: corrupt.
  Result<std::int64_t> data_ranks() const;

  /// Under common. Requires: `node` is one of the joiner's state.
  void add_common(std::string key, NodeId node) { common_.emplace_back(std::move(key), node); }
  /// Under common.ranks.<rank>.
  void add_of_rank(std::int64_t rank, std::string key, NodeId node);

  /// Requires: the slots of groups() are filled. Errors: corrupt, naming parameter and file.
  Result<std::unique_ptr<CheckpointReader>> finish(CheckpointInfo info) &&;

 private:
  ModelTree(std::vector<Part> models, CheckpointJoiner* joiner) : models_(std::move(models)), joiner_(joiner) {}

  using Entry = std::pair<std::string, NodeId>;  // key, value
  Result<void> compare_models();
  Result<void> compare_model(std::size_t rank);
  Result<void> place_frozen();
  Result<void> add_module();
  Result<void> add_copies(const std::string& name, CheckpointJoiner::Number number, TensorId first);
  Result<NodeId> whole_of(const std::string& name);
  Result<void> check_complete() const;
  void add_slots();
  void add_model_states();
  NodeId dict_of(const std::vector<Entry>& entries);

  std::vector<Part> models_;
  CheckpointJoiner* joiner_;
  ParameterGroups groups_;
  std::map<std::string, CheckpointJoiner::Number> frozen_;  // of frozen_param_fragments
  std::map<std::string_view, NodeId> frozen_parts_;         // in the first file
  std::vector<Entry> top_;
  std::vector<Entry> common_;
  std::vector<std::pair<std::int64_t, std::vector<Entry>>> of_ranks_;
};

}  // namespace tenplex::deepspeed
