// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A state as the files of ranks need it: what is a tensor of the model, what belongs to a parameter, what to a rank.
//
//   decoder.layers.3.mlp.linear_fc1.weight              model, in the order that Megatron-Core's model has
//   optimizer.state.exp_avg.decoder.layers.3.….weight   a slot of it
//   decoder.layers.3.….linear_fc1._extra_state/shard_0_1, rng_state/shard_1.0_2.2, common
//
// Value type; borrows source and target. Threads: as any value.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/megatron/global_names.h"
#include "tenplex/formats/megatron/model_order.h"
#include "tenplex/formats/megatron_legacy/rank_model.h"

namespace tenplex::megatron_legacy {

inline constexpr std::string_view kHeadState = "output_layer._extra_state";  ///< always None

struct TargetParameter {
  TensorId tensor;
  megatron::NumberedName name;
  megatron::ModelPlace place;
  std::vector<std::pair<std::string, TensorId>> slots;  ///< sorted by name
};

/// An object of a module, under the name that the module has in the whole model.
struct TargetObject {
  std::string name;
  NodeId node = kNoNode;
};

struct TargetState {
  std::vector<TargetParameter> model;  ///< in its order
  std::vector<TargetObject> objects;
  std::map<std::string, NodeId, std::less<>> random;  ///< by the whole key
  NodeId common = kNoNode;
  bool has_slots = false;
};

/// Errors: unsupported naming a tensor or object that a legacy checkpoint has no place for; corrupt for a slot without
/// its parameter.
Result<TargetState> sort_state(const CheckpointInfo& source, const Collection& target);

}  // namespace tenplex::megatron_legacy
