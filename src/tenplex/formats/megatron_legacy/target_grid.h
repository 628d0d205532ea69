// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The model parallel ranks of a target: which device of the layout's meshes writes the file of each.
//
//   layout megatron-gpt, tp=2, dp=2, ep=2, pp=2     mp_rank_01_000_001 ◄─ tp 1, pp 0, ep 1: device 3
//
// Of devices at the same place (data and context parallel ones) the first one counts. Pure. Threads: safe together.
#pragma once

#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/megatron_legacy/rank_folders.h"

namespace tenplex::megatron_legacy {

struct TargetGrid {
  RankFolders folders;            ///< with the names that Megatron-LM gives them
  std::vector<DeviceId> devices;  ///< of folders.ranks
};

/// `note` is how the target is cut, over `device_count` devices. Errors: unsupported for an axis that folders cannot
/// tell, and for experts of another tensor parallel size.
Result<TargetGrid> make_target_grid(const LayoutNote& note, int device_count);

}  // namespace tenplex::megatron_legacy
