// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ModuleTensors: the tensors of 'module' in the model's files, in its order, joined over tensor parallel ranks. What
// ZeRO-3 holds an empty place of is put together: a parameter is its float32 master, a frozen one is made of
// 'frozen_param_fragments'. Not for pipelines, whose tensors are in files of layers.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/formats/deepspeed/model_parts.h"
#include "tenplex/formats/deepspeed/named_nodes.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

inline constexpr std::string_view kFrozenParts = "frozen_param_fragments";

class ModuleTensors {
 public:
  /// Both outlive it.
  ModuleTensors(ModelParts* parts, CheckpointJoiner* joiner)
      : parts_(*parts), files_(parts->files()), joiner_(*joiner) {}

  /// The tensor, whole; nothing if it is no tensor or an empty place. Errors: as JoinRules::join(); corrupt for ranks
  /// that do not have it.
  Result<std::optional<CheckpointJoiner::Number>> tensor(const std::string& name);

  /// Adds all of them. Requires: the slots of the parameters are filled. Errors: corrupt, naming parameter and file.
  Result<void> add_to(std::vector<NamedNode>* top);

  bool has_frozen_parts() const { return !frozen_.empty(); }
  /// The shape of the whole, of one that tensor() or add_to() has met.
  std::optional<Dims> shape_of(const std::string& name) const;

  /// Errors: corrupt for a frozen parameter that is not among `names`.
  Result<void> check_frozen(const std::set<std::string_view>& names) const;

 private:
  using Shapes = std::vector<std::pair<std::string, Dims>>;
  Result<std::vector<Shapes>> frozen_shapes() const;
  Result<void> place_frozen();
  Result<void> place_frozen(const std::string& name, const std::vector<Dims>& local);
  Result<void> place_frozen_part(CheckpointJoiner::Number number, const std::string& name, const LocalPart& local,
                                 std::size_t model_rank);
  Result<void> add_copies(const std::string& name, CheckpointJoiner::Number number);
  Result<NodeId> whole_of(const std::string& name);
  Result<void> check_shape(const std::string& name) const;
  NodeId joined_node(CheckpointJoiner::Number number, TensorId first);

  ModelParts& parts_;
  const ModelFiles& files_;
  CheckpointJoiner& joiner_;
  std::map<std::string, CheckpointJoiner::Number> frozen_;  // of frozen_param_fragments
  std::map<std::string, JoinedShape> joined_;
  std::map<std::string, CheckpointJoiner::Number> module_;
  std::map<TensorId, NodeId> nodes_;  // of tensors in the first file
};

}  // namespace tenplex::deepspeed
