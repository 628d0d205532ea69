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
// model's states, what they share is one, and what differs is kept under common.ranks. The parts of tensor parallel
// ranks are joined; "common" then says what it would say of the whole model on one tensor parallel rank.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
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

  /// The files of the model: of all tensor parallel ranks, and of each one file or one per data parallel rank.
  /// Errors: corrupt for another structure; unsupported for several tensor parallel ranks without
  /// universal_checkpoint_info.
  /// `experts` are files with experts of MoE layers.
  static Result<ModelTree> make(std::vector<std::vector<Part>> models, std::vector<Part> experts,
                                CheckpointJoiner* joiner);

  ParameterGroups& groups() { return groups_; }
  Part model_part() const { return models_[0][0]; }
  const CheckpointInfo& model_file() const { return joiner_->stored(models_[0][0]); }
  std::size_t tensor_ranks() const { return models_.size(); }
  /// The number under which a rank is known: those of one data parallel rank follow each other.
  DeviceId device(std::size_t tensor_rank, std::size_t data_rank) const {
    return DeviceId(data_rank * models_.size() + tensor_rank);
  }
  /// The tensor of 'module', whole; nothing if it is no tensor or an empty place. Errors: as JoinRules::join().
  Result<std::optional<CheckpointJoiner::Number>> module_tensor(const std::string& name);
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
  ModelTree(std::vector<std::vector<Part>> models, CheckpointJoiner* joiner)
      : models_(std::move(models)), joiner_(joiner) {}

  using Entry = std::pair<std::string, NodeId>;  // key, value
  Result<void> read_groups();
  Result<void> read_experts();
  Result<void> add_experts();
  Result<void> compare_models();
  Result<void> compare_model(std::size_t tensor_rank, std::size_t data_rank);
  const StateGraph& graph(std::size_t tensor_rank, std::size_t data_rank) const {
    return joiner_->stored(models_[tensor_rank][data_rank]).state;
  }
  /// Of the model's file of a rank, the tensor in the dict; nothing if there is none.
  std::optional<TensorId> tensor_in(std::string_view dict, std::string_view name, std::size_t tensor_rank,
                                    std::size_t data_rank) const;
  Result<std::vector<std::vector<std::pair<std::string, Dims>>>> frozen_shapes() const;
  Result<void> place_frozen();
  Result<void> place_frozen(const std::string& name, const std::vector<Dims>& local);
  Result<JoinedShape> join(const std::string& name, const std::vector<Dims>& local);
  Result<void> add_module();
  Result<void> add_copies(const std::string& name, CheckpointJoiner::Number number);
  NodeId joined_node(CheckpointJoiner::Number number, TensorId first);
  Result<NodeId> whole_of(const std::string& name);
  Result<void> check_complete() const;
  void add_slots();
  void add_model_states();
  void say_whole(StateGraph* graph) const;
  void put_shapes(StateGraph* graph, NodeId dict) const;
  NodeId dict_of(const std::vector<Entry>& entries);

  std::vector<std::vector<Part>> models_;
  CheckpointJoiner* joiner_;
  JoinRules rules_;
  std::vector<Part> experts_;
  std::map<std::string, std::int64_t> experts_of_;  // by ExpertName::layer
  ParameterGroups groups_;
  std::map<std::string, CheckpointJoiner::Number> frozen_;  // of frozen_param_fragments
  std::map<std::string, JoinedShape> joined_;               // of 'module'
  std::map<std::string, CheckpointJoiner::Number> module_;  // the same
  std::map<TensorId, NodeId> nodes_;                        // of tensors in the first file
  std::set<std::string, std::less<>> buffers_;
  std::vector<Entry> top_;
  std::vector<Entry> common_;
  std::vector<std::pair<std::int64_t, std::vector<Entry>>> of_ranks_;
};

}  // namespace tenplex::deepspeed
