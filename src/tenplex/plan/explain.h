// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A plan in words and numbers: what is kept, moved, split and merged, over which links, and how close that is to the
// least that is possible.
//
// Pure functions. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/plan/bounds.h"
#include "tenplex/plan/placement_search.h"
#include "tenplex/plan/plan.h"

namespace tenplex {

struct PlanReport {
  std::array<std::array<Totals, kRouteCount>, kCopyClassCount> totals{};  ///< [class][route]
  std::int64_t state_bytes = 0;                                           ///< of all target sub-tensors on all devices
  std::int64_t bytes_in = 0;                                              ///< over the network
  std::int64_t bytes_in_bound = 0;                                        ///< the least
  std::vector<std::int64_t> in;                                           ///< per worker
  std::vector<std::int64_t> out;
  std::vector<std::int64_t> in_bound;
  LinkBounds links;
  Hash128 hash;
  std::size_t objects = 0;
};

PlanReport make_report(const Plan& plan, const PlanInput& input);

/// "39 tensors, 4 devices → 1 device on 2 workers".
std::string what_text(const Plan& plan, const PlanInput& input);

/// "2.5 s", "7.66 ms", "20.4 µs".
std::string format_seconds(double seconds);

/// For a terminal; ends with a line break. `placement` may be null.
std::string explain_text(const Plan& plan, const PlanInput& input, const PlacementResult* placement);

/// One JSON object; exact bytes, seconds as numbers. "busiest_link" is what the plan does; the seconds in "placement"
/// are the estimate by which it was chosen. `placement` may be null.
std::string explain_json(const Plan& plan, const PlanInput& input, const PlacementResult* placement);

}  // namespace tenplex
