// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The float32 copies of parameters under another name. Megatron's distributed optimizer calls them `param`, its other
// mixed-precision optimizer `fp32_param`, and so do the formats that have one name for them:
//
//   optimizer.state.param.decoder.…  ─►  optimizer.state.fp32_param.decoder.…
//
// Pure. Threads: as CheckpointReader.
#pragma once

#include <memory>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// The checkpoint with `fp32_param` for the slot `param` of every tensor of the model. It is `reader` itself if it has
/// no such slot, or has both.
std::unique_ptr<CheckpointReader> with_one_master_name(std::unique_ptr<CheckpointReader> reader);

/// True if there is a slot `fp32_param`.
bool has_common_master_name(const CheckpointInfo& info);

}  // namespace tenplex
