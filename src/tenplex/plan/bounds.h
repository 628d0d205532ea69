// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What no plan can beat.
//
//   bytes into a worker   |needed \ held|: what its devices need and none of them holds, each element once
//   time                  the longest that some link must be busy for that, whoever sends
//
// Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenplex/plan/plan.h"
#include "tenplex/ptc/box.h"

namespace tenplex {

/// Elements in the union of `needed` that are in none of `held`. Boxes may overlap and repeat.
/// Cost: O((n + h) log(n + h)) for boxes that overlap little.
std::int64_t missing_elements(std::span<const Box> needed, std::span<const Box> held);

struct LinkBounds {
  double busiest_seconds = 0;  ///< of the plan: max over workers of in/bandwidth and out/bandwidth
  WorkerId busiest;
  bool busiest_sends = false;  ///< the busiest link is an outgoing one
  double bound_seconds = 0;    ///< the same with the least bytes and the best spread; 0 if nothing must move
  double ratio() const { return bound_seconds > 0 ? busiest_seconds / bound_seconds : busiest_seconds > 0 ? 0 : 1; }
};

/// Bytes out of every worker, from the parts' senders.
std::vector<std::int64_t> bytes_out(const Plan& plan);

/// The bound takes the receivers' least bytes over their own links, and the sum of them over the links of
/// all workers that hold something of the source.
LinkBounds link_bounds(const Plan& plan, const PlanInput& input);

}  // namespace tenplex
