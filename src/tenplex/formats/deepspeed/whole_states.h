// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the model's states say of one model parallel rank's part of the model becomes what they would say of the whole
// on one rank: 'param_shapes' and 'frozen_param_shapes' of whole parameters, of all stages; 'buffer_names' of all
// stages; 'mp_world_size' and the degrees of 'checkpoint_parallel_dimensions' 1.
//
// Threads: as the graph.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tenplex/formats/deepspeed/model_parts.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

/// Changes the graph, whose root is the model's states. `shape_of` gives the whole shape of a frozen parameter, if it
/// is known.
void say_whole(const ModelParts& parts, const std::function<std::optional<Dims>(const std::string&)>& shape_of,
               StateGraph* graph);

/// Adds a torch.Size.
NodeId add_size(const Dims& shape, StateGraph* graph);

}  // namespace tenplex::deepspeed
