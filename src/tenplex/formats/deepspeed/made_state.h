// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What DeepSpeed needs beside the tensors to load a universal checkpoint, made for a source that is no DeepSpeed
// checkpoint: tensors of a model, and slots of an optimizer as optimizer.state.SLOT.PARAMETER.
//
//   common.model_states       param_shapes: one group of all parameters that have slots; numbers of steps and ranks
//   common.optimizer_state    the number of steps, and a group of no settings for every parameter
//   …fp32_param.PARAMETER     the parameter itself, if no parameter has a master
//
// A group of a program is filled with the settings of the group of the same number in the checkpoint, and is not loaded
// if there is none. There cannot be more groups than parameters, and groups without settings leave the program's as
// they are.
//
// Pure function. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::deepspeed {

struct MadeState {
  StateGraph graph;
  bool has_optimizer = false;  ///< else there are only weights
  bool has_masters = false;    ///< that were made of the parameters
  float steps = 0;             ///< the value of the tensor `step`, if that is led to
  /// Numbers of steps of which the first stands for both.
  std::vector<std::pair<TensorId, TensorId>> equal;
};

struct MadeFrom {
  std::optional<std::int64_t> steps;  ///< where the source does not say how many the optimizer has made
  TensorId step;                      ///< the tensor that stands for it: float32, no dimension
};

/// `tensors` by TensorId. Nothing if the source has DeepSpeed's objects. Errors: unsupported, naming what is missing
/// and how it can be given, and naming objects that DeepSpeed's loader would not know.
Result<std::optional<MadeState>> make_state(const StateGraph& source, std::span<const TensorInfo> tensors,
                                            const MadeFrom& from);

}  // namespace tenplex::deepspeed
