// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parameters that the optimizer has, as `param_shapes` of the model's file lists them: one dict of name and shape
// per group, in the order in which the group's flat tensor has them. Value types. Threads: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/deepspeed/join_rules.h"
#include "tenplex/formats/joined_reader.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

/// The name of the slot with the parameter itself in float32: in the files "fp32", in the tree "fp32_param".
inline constexpr std::string_view kMasterSlot = "fp32_param";

struct Parameter {
  std::string name;
  Dims shape;  ///< of the whole
  /// By tensor parallel rank; without one, the only rank has the whole. Filled by join().
  std::vector<LocalPart> parts;
  CutNotes notes;
  std::size_t expert_rank = 0;  ///< the expert parallel rank that has it; 0 for what is of no expert
  bool is_expert = false;
  std::size_t group = 0;
  bool is_spare = false;  ///< of a stage's groups: an earlier stage has it, and this one's copy counts for nothing
  /// Slot, tensor; the master first. Filled by who reads the optimizer.
  std::vector<std::pair<std::string, CheckpointJoiner::Number>> slots;
};

class ParameterGroups {
 public:
  /// `param_shapes` may be None: no parameters. Errors: corrupt for another structure and for a name that is there
  /// twice.
  static Result<ParameterGroups> read(const StateGraph& graph, NodeId param_shapes);

  /// The groups of all tensor parallel ranks as one. Errors: as JoinRules::join(); corrupt for another group, name or
  /// order, naming the rank.
  static Result<ParameterGroups> join(const std::vector<ParameterGroups>& ranks, JoinRules* rules);

  /// The groups of all stages of a pipeline as one: in every group the parameters of the first stage, of the second, …;
  /// one of a tied module is there once. Errors: corrupt, naming the parameter, for another number of groups and for
  /// what is on several stages and may not be, or is not the same there.
  static Result<ParameterGroups> stack(const std::vector<ParameterGroups>& stages);

  /// The groups of an expert parallel rank become those of all: in a group of experts the parameters of rank 0, of rank
  /// 1, … under their names in the whole model. `experts_of` is how many a layer has, by ExpertName::layer.
  /// Errors: corrupt, naming the parameter, where the layer's experts are not a multiple of the rank's.
  static Result<ParameterGroups> spread(ParameterGroups local, const std::map<std::string, std::int64_t>& experts_of);

  /// How many experts of the layer a rank has; 0 if the layer is not known.
  std::int64_t experts_per_rank(std::string_view layer) const;

  std::size_t group_count() const { return first_.size() - 1; }
  /// [first, end) in parameters().
  std::size_t first_of(std::size_t group) const { return first_[group]; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  Parameter* find(std::string_view name);
  const Parameter* find(std::string_view name) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<std::size_t> first_{0};
  std::unordered_map<std::string, std::size_t> index_;
  std::map<std::string, std::int64_t, std::less<>> per_rank_;  // by ExpertName::layer
};

/// Dicts of name and torch.Size, as frozen_param_shapes. Errors: corrupt.
Result<std::vector<std::pair<std::string, Dims>>> read_shapes(const StateGraph& graph, NodeId dict);

}  // namespace tenplex::deepspeed
