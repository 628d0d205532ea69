// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Assignments of target ranks to workers: the exhaustive search and the heuristic behind place().
//
// Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tenplex/plan/placement_cost.h"

namespace tenplex {

/// What is assigned, and to what.
struct AssignmentProblem {
  const std::vector<Item>* items = nullptr;
  const Topology* topology = nullptr;
  std::vector<std::vector<DeviceId>> groups;  ///< tensor-parallel groups of target ranks
  std::vector<int> capacity;                  ///< usable devices, per worker
  int ranks = 0;
};

/// Worker of every target rank.
using Assignment = std::vector<WorkerId>;

/// The load of an assignment.
LinkLoad load_of(const AssignmentProblem& problem, const Assignment& assignment);

struct ExhaustiveResult {
  Assignment assignment;
  std::int64_t assignments = 0;
};

/// The best of all distinct assignments whose groups span as few workers as possible, or nothing if there are more than
/// `limit`.
std::optional<ExhaustiveResult> search_all(const AssignmentProblem& problem, std::int64_t limit);

/// Greedy by bytes kept, then exchanges of whole parts of groups while they help.
Assignment search_greedily(const AssignmentProblem& problem, int max_rounds);

}  // namespace tenplex
