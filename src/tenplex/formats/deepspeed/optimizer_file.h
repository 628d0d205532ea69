// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank's optimizer file says of its part of the flat groups.
//
//   ZeRO-1/2  group [ w │ u.. ]: fragments by name, the padding of the group's end cut off of the master only
//   ZeRO-3    group [ w/dp │ u/dp │ … ]: ceil(elements / ranks) of every parameter, no names
//
// Value types. Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex::deepspeed {

struct Fragment {
  std::string name;
  std::int64_t start = 0;  ///< in the rank's flat tensor
  std::int64_t elements = 0;
};

struct FlatGroup {
  std::int64_t ranks = 0;                               ///< that it is cut over: fewer than all for experts
  TensorId master;                                      ///< one dimension, float32
  std::int64_t size = 0;                                ///< elements of the slots; of the master with its padding
  std::vector<std::pair<std::string, TensorId>> slots;  ///< of that size
  std::vector<std::pair<std::string, NodeId>> rest;     ///< what else the optimizer has of the group: its step
  std::vector<Fragment> fragments;                      ///< ZeRO-1/2: by start
  std::int64_t padding = 0;                             ///< at the end, ZeRO-1/2
  std::int64_t alignment = 0;                           ///< between parameters, on all ranks together, ZeRO-1/2
};

struct OptimizerFile {
  bool whole_parameters = false;  ///< ZeRO-3: groups hold a part of every parameter
  NodeId outer = kNoNode;         ///< optimizer_state_dict of the file
  NodeId base = kNoNode;          ///< in it the dict with 'state' and 'param_groups' that torch's optimizer made
  std::vector<FlatGroup> groups;
};

/// `file` is the reader of the one torch file. `ranks` is how many data parallel ranks there are.
/// Errors: corrupt, naming the group, for another structure or sizes that do not fit; unsupported for the elastic form
/// and for groups with ranks of their own.
Result<OptimizerFile> read_optimizer_file(const CheckpointInfo& file, std::int64_t ranks);

}  // namespace tenplex::deepspeed
