// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// State trees that are no more than names of tensors: dicts in dicts. Pure. Threads: safe together.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Gives `flat`, which has no tree, what the tree of `info` says of its tensors: those that are the same view of one
/// storage become aliases. Adds a line to the problems for attributes of dicts (state_dict's _metadata) and for lists,
/// which names do not say. Errors: unsupported if a leaf of the tree is no tensor, naming it; as flatten().
Result<void> leave_tree_out(const CheckpointInfo& info, CheckpointInfo* flat);

}  // namespace tenplex
