// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What Megatron-Core stores of a state that is not cut: everything but sharded tensors and sharded objects.
//
//   {"common": {…}, "w": tensor, "rng_state/shard_0_1": object}     a tree as it is read from such a checkpoint
//     common   ─► common.pt, or the object common_state/shard_0_1
//     objects  ─► items, each in a list of one
//     tensors  ─► chunks
//
// Any other tree: all its tensors are cut under their names; what is left of it when they are taken out, with the dicts
// and lists that are empty then, becomes `common`.
//
// Value type. Threads: as any value.
#pragma once

#include <string_view>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/dcp/folder_contents.h"

namespace tenplex::megatron {

inline constexpr std::string_view kCommonKey = "common";
inline constexpr std::string_view kCommonFileName = "common.pt";
inline constexpr std::string_view kCommonItem = "common_state/shard_0_1";

struct CommonState {
  StateGraph graph;  ///< the source's nodes, and those made for the file
  NodeId common = kNoNode;
  std::vector<dcp::NamedObject> objects;
  std::vector<TensorId> tensors;
  bool is_whole = false;  ///< these give the source's tree back
};

/// `target` has the source's tensors, and owners for its objects.
/// Errors: unsupported naming a class that Megatron-Core's loader refuses, unless it comes from such a checkpoint.
Result<CommonState> split_state(const CheckpointInfo& source, const Collection& target);

}  // namespace tenplex::megatron
