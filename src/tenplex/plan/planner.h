// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The planner: diff(source, target, placement, topology) → Plan. Text: docs/plans.md.
//
// What a worker pulls depends on the input and on that worker alone, so every worker can compute its own part.
// Pure functions. Threads: any.
#pragma once

#include "tenplex/plan/plan.h"

namespace tenplex {

struct WorkerPlan {
  PlanHeader header;
  std::vector<TensorGroup> groups;
  WorkerPart part;
};

/// Errors: invalid_argument naming the tensor and the box that nobody holds, a tensor or object that one side lacks, or
/// that differs in dtype or shape, or a placement that does not fit; corrupt naming replicas that disagree.
Result<Plan> make_plan(const PlanInput& input);

/// Equal to make_plan(input).parts[worker] byte for byte. Errors: as make_plan(), as far as they concern this worker.
Result<WorkerPlan> plan_for_worker(const PlanInput& input, WorkerId worker);

}  // namespace tenplex
