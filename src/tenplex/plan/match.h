// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which tensor of the source becomes which of the target, and which of them can be planned together.
//
// Names are the identity. Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tenplex/plan/plan.h"

namespace tenplex {

struct Matching {
  std::vector<TensorGroup> groups;                             ///< in order of their first target tensor
  std::vector<std::pair<std::int32_t, std::int32_t>> objects;  ///< (source, target), ascending by target
};

/// Errors: invalid_argument naming the tensor or object that one side lacks or that differs, or what is wrong with the
/// input; corrupt naming the replicas that disagree.
Result<Matching> match(const PlanInput& input);

/// The same without a look at placement, baseline and replicas.
Result<Matching> match_collections(const PlanInput& input);

PlanHeader make_header(const PlanInput& input);

}  // namespace tenplex
