// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A plan as one self-contained HTML page: no script, no outside resource, every name escaped.
//
//   devices    a strip per device (many devices: per worker, or per run of workers), before and after; along it the
//   state
//              in the order of its tensors, the colour says which part, its depth how much of that part is held
//   traffic    who sends how much to whom
//   links      the busiest ones, beside the least possible
//
// Pure function. Threads: any.
#pragma once

#include <string>

#include "tenplex/plan/explain.h"

namespace tenplex {

/// `title` is shown as it is given. `placement` may be null.
std::string explain_html(const Plan& plan, const PlanInput& input, const PlacementResult* placement,
                         const std::string& title);

}  // namespace tenplex
