// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a target layout cuts the model as the layout megatron-gpt does. The files of ranks do not say how they are
// cut, so they are read by that layout, and by Megatron. Pure. Threads: safe together.
#pragma once

#include "tenplex/base/result.h"
#include "tenplex/formats/megatron_legacy/rank_tree.h"

namespace tenplex::megatron_legacy {

/// Errors: unsupported naming a tensor that megatron-gpt has no rule for, or cuts otherwise. Tensors with padding,
/// whose rows are cut evenly over tensor parallel ranks, are not looked at.
Result<void> check_cut(const TargetModel& model);

}  // namespace tenplex::megatron_legacy
