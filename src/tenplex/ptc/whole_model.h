// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Is a model whole? A rule of a naming map that has tensors has one for all numbers of its words together:
//
//   layers 0, 1 and experts 0, 1, 2   experts.{layer}.{expert}: six tensors, or none
//
// Pure. Threads: safe together.
#pragma once

#include <cstddef>

#include "tenplex/base/result.h"
#include "tenplex/ptc/map_match.h"
#include "tenplex/ptc/naming_map.h"

namespace tenplex {

/// Rules that name the same tensor of the other side count as one, a word that is `partial` for a rule may have any
/// numbers there, and slots do not count: parameters that are not trained have none. Errors: invalid_argument, naming
/// the first tensor that is missing.
Result<void> check_whole_model(const NamingMap& map, const MapGroups& matched);

}  // namespace tenplex
