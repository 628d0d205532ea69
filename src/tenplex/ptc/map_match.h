// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which rule of a naming map each tensor of a checkpoint falls under, and which tensors belong together.
//
//   layers.0.q, layers.0.k, layers.0.v    one group: rule 3, layer 0
//   w.0, w.1, w.2                         one group where the other side stacks the layers
//
// Pure; results borrow the map. Threads: safe together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/ptc/map_index.h"
#include "tenplex/ptc/naming_map.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct MapMember {
  TensorId tensor;
  std::size_t slot = 0;  ///< index into the side's names
  WordValues values;     ///< one per word of the rule
};

struct MapGroup {
  const MapRule* rule = nullptr;
  SlotFrame frame;                 ///< of all members: they are one slot of the parameters that the rule names
  std::vector<MapMember> members;  ///< in the order of the tensors; not empty
};

struct MapGroups {
  std::size_t from = 0;           ///< the side (0 or 1) whose names the tensors have
  std::vector<MapGroup> groups;   ///< in the order of their first tensors
  std::vector<TensorId> dropped;  ///< that the map leaves out
};

/// For each tensor the first rule with its name on its side counts; slots of one name form groups of their own. Tensors
/// for which `kept` is true do not count. Errors: invalid_argument if the names fit neither side or both equally, for a
/// tensor without a rule, two tensors of one name, and a number that is missing under a word: the numbers of every word
/// must be 0, 1, … up to the largest.
Result<MapGroups> group_tensors(const NamingMap& map, std::span<const TensorInfo> tensors,
                                const std::vector<bool>& kept = {});

}  // namespace tenplex
