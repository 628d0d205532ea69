// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the layout megatron-gpt is asked for where the parts of tensors in the files of ranks are looked up: rows of the
// vocabulary as they are, padding or not, and one stage at a time. Pure. Threads: safe together.
#pragma once

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/megatron_legacy/rank_folders.h"
#include "tenplex/ptc/mesh.h"
#include "tenplex/ptc/size_rules.h"

namespace tenplex::megatron_legacy {

/// Device: tensor rank + tensor_size · expert rank.
MeshSizes mesh_of_stage(const RankFolders& folders);

/// With what `args` say at the top of the tree, or in `common`.
NamedSizes layout_sizes(const CheckpointInfo& info);

}  // namespace tenplex::megatron_legacy
