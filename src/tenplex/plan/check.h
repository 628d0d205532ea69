// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The proof of a plan, before it runs. Shares no code with the planner: it asks the collections itself, counts volumes
// and sweeps boxes.
//
//   every target element is filled exactly once         every source lies in a shard that the named device holds
//   addresses, bytes, classes, routes and workers are    a worker pulls nothing that it holds, and nothing twice
//   what they say
//
// Since each element is then pulled at most once and only if it is needed and not held, the bytes into a worker equal
// their lower bound. A Plan is proven group by group: in full for the first tensor; of the others
// every shard is compared with the first's, and their senders hold what they send.
//
// Pure functions. Threads: any.
#pragma once

#include "tenplex/base/result.h"
#include "tenplex/plan/plan.h"

namespace tenplex {

/// Errors: invalid_argument naming the copy and what is wrong with it.
Result<void> check(const ExplicitPlan& plan, const PlanInput& input);
Result<void> check(const Plan& plan, const PlanInput& input);

}  // namespace tenplex
