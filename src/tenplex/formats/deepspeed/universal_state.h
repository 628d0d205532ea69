// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a state tree must have to become a universal checkpoint, and where it is.
//
//   "words.weight"                              ─► a tensor of the model
//   "optimizer.state.exp_avg.words.weight"      ─► slot exp_avg of parameter words.weight
//   "optimizer.state.step.words.weight"         ─► its number of steps; else that of its group
//   "common" / "model_states", "optimizer_state", "parameters"; the rest of it goes along in the model's states
//
// Value type; borrows the graph. Threads: as any value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::deepspeed {

/// The file of a parameter's float32 master.
inline constexpr std::string_view kMasterFile = "fp32";

/// Begins the names of slots: optimizer.state.SLOT.PARAMETER.
inline constexpr std::string_view kSlotStart = "optimizer.state.";
/// The slot with a parameter's number of steps, a tensor of no dimension.
inline constexpr std::string_view kStepSlot = "step";

struct UniversalSlot {
  std::string file;  ///< "fp32", "exp_avg", …
  NodeId tensor = kNoNode;
};

struct UniversalParameter {
  std::string name;
  std::vector<UniversalSlot> slots;
  NodeId step = kNoNode;
  NodeId notes = kNoNode;   ///< a dict that goes into each of its files
  bool vocabulary = false;  ///< it has fewer rows than the model: its padding is left out
};

struct UniversalState {
  std::vector<std::pair<std::string, NodeId>> model;  ///< tensors, in order
  std::vector<UniversalParameter> parameters;         ///< those of the optimizer, in the order of their groups
  NodeId model_states = kNoNode;
  NodeId optimizer_state = kNoNode;
  std::vector<std::pair<std::string, NodeId>> rest;  ///< of common
  std::string tag;                                   ///< "global_step2_universal"
};

/// `tensors` give shapes by TensorId. Errors: unsupported, naming what DeepSpeed needs and the tree does not have, and
/// what the tree has and a universal checkpoint has no place for.
Result<UniversalState> find_universal_state(const StateGraph& graph, std::span<const TensorInfo> tensors);

}  // namespace tenplex::deepspeed
