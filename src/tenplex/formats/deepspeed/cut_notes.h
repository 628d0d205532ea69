// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a universal checkpoint's files say of a parameter beside its tensor, so that DeepSpeed can cut it again:
//
//   {"cat_dim": 1}    {"param_n_sub_params": 2}    {"sub_param_shape": SubparamShape(…)}    {"vocab_tensor": True}
//
// A pure function. Threads: as the graph.
#pragma once

#include "tenplex/formats/deepspeed/join_rules.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

/// A dict of them; kNoNode if it would be empty, as for a cut along dimension 0.
NodeId notes_node(const CutNotes& notes, StateGraph* graph);

}  // namespace tenplex::deepspeed
