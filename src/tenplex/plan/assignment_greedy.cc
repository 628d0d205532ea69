// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include "tenplex/plan/assignment.h"

namespace tenplex {
namespace {

/// Ranks of one group that stay together on a worker.
struct Part {
  std::vector<DeviceId> ranks;
  WorkerId worker{-1};  // −1: not assigned as a whole
};

std::vector<Part> split_groups(const AssignmentProblem& problem) {
  const auto largest =
      static_cast<std::size_t>(std::max(1, *std::max_element(problem.capacity.begin(), problem.capacity.end())));
  std::vector<Part> parts;
  for (const auto& group : problem.groups)
    for (std::size_t first = 0; first < group.size(); first += largest) {
      const auto last = std::min(first + largest, group.size());
      parts.push_back(
          {{group.begin() + static_cast<std::ptrdiff_t>(first), group.begin() + static_cast<std::ptrdiff_t>(last)},
           WorkerId(-1)});
    }
  return parts;
}

class Greedy {
 public:
  explicit Greedy(const AssignmentProblem& problem)
      : problem_(problem),
        cost_(*problem.items, *problem.topology, problem.ranks),
        parts_(split_groups(problem)),
        free_(problem.capacity),
        most_tries_(std::min(kMostTries, kMostSteps / std::max<std::size_t>(problem.capacity.size(), 1))),
        assignment_(static_cast<std::size_t>(problem.ranks)) {}

  Assignment run(int max_rounds) {
    assign_by_kept_bytes();
    assign_rest();
    for (std::size_t rank = 0; rank < assignment_.size(); ++rank) cost_.add(DeviceId(rank), assignment_[rank]);
    for (int round = 0; round < max_rounds; ++round)
      if (!exchange_round()) break;
    return assignment_;
  }

 private:
  void assign(Part* part, WorkerId worker) {
    part->worker = worker;
    free_[worker.index()] -= static_cast<int>(part->ranks.size());
    for (const DeviceId rank : part->ranks) assignment_[rank.index()] = worker;
  }

  bool fits(const Part& part, WorkerId worker) const {
    return free_[worker.index()] >= static_cast<int>(part.ranks.size());
  }

  /// Bytes of the part that every worker holds; workers that hold nothing are left out.
  std::map<WorkerId, double> kept_by_worker(const Part& part) const {
    std::map<WorkerId, double> kept;
    for (const DeviceId rank : part.ranks)
      for (const std::int32_t item : cost_.items_of(rank))
        for (const Lot& lot : (*problem_.items)[static_cast<std::size_t>(item)].lots)
          for (const WorkerId worker : lot.holders) kept[worker] += lot.bytes;
    return kept;
  }

  void assign_by_kept_bytes() {
    std::vector<std::tuple<double, std::size_t, WorkerId>> wishes;  // −bytes, part, worker
    for (std::size_t part = 0; part < parts_.size(); ++part)
      for (const auto& [worker, bytes] : kept_by_worker(parts_[part])) wishes.emplace_back(-bytes, part, worker);
    std::sort(wishes.begin(), wishes.end());
    for (const auto& [bytes, part, worker] : wishes)
      if (parts_[part].worker.value() < 0 && fits(parts_[part], worker)) assign(&parts_[part], worker);
  }

  void assign_rest() {
    std::size_t next = 0;
    for (Part& part : parts_) {
      if (part.worker.value() >= 0) continue;
      std::size_t tried = 0;
      for (; tried < free_.size() && !fits(part, WorkerId((next + tried) % free_.size())); ++tried) {
      }
      if (tried < free_.size()) {
        next = (next + tried) % free_.size();
        assign(&part, WorkerId(next));
      } else {
        scatter(part);
      }
    }
  }

  /// No worker has room for the whole part.
  void scatter(const Part& part) {
    for (const DeviceId rank : part.ranks) {
      const auto roomiest = std::max_element(free_.begin(), free_.end());
      --*roomiest;
      assignment_[rank.index()] = WorkerId(static_cast<std::size_t>(roomiest - free_.begin()));
    }
  }

  void move(Part* part, WorkerId worker) {
    for (const DeviceId rank : part->ranks) {
      cost_.remove(rank, assignment_[rank.index()]);
      cost_.add(rank, worker);
      assignment_[rank.index()] = worker;
    }
    free_[part->worker.index()] += static_cast<int>(part->ranks.size());
    free_[worker.index()] -= static_cast<int>(part->ranks.size());
    part->worker = worker;
  }

  /// Tries the exchange; undoes it if it does not help.
  bool exchange(Part* a, Part* b, LinkLoad* load) {
    const WorkerId first = a->worker;
    const WorkerId second = b->worker;
    if (first == second || a->ranks.size() != b->ranks.size()) return false;
    move(a, second);
    move(b, first);
    const LinkLoad after = cost_.load();
    if (after < *load) {
      *load = after;
      return true;
    }
    move(a, first);
    move(b, second);
    return false;
  }

  /// True if some rank of the part receives from or on the worker.
  bool loads(const Part& part, WorkerId worker) const {
    if (part.worker == worker) return true;
    for (const DeviceId rank : part.ranks)
      for (const std::int32_t item : cost_.items_of(rank))
        for (const Lot& lot : (*problem_.items)[static_cast<std::size_t>(item)].lots)
          if (std::binary_search(lot.holders.begin(), lot.holders.end(), worker) &&
              !std::binary_search(lot.holders.begin(), lot.holders.end(), part.worker))
            return true;
    return false;
  }

  /// Only an exchange of a part that loads the busiest link can make it idler.
  bool exchange_round() {
    const WorkerId busiest = cost_.busiest();
    LinkLoad load = cost_.load();
    bool helped = false;
    for (Part& a : parts_) {
      if (a.worker.value() < 0 || !loads(a, busiest)) continue;
      for (Part& b : parts_) {
        if (b.worker.value() < 0) continue;
        if (++tries_ > most_tries_) return false;
        helped = exchange(&a, &b, &load) || helped;
      }
    }
    return helped;
  }

  static constexpr std::size_t kMostTries = 20'000;
  static constexpr std::size_t kMostSteps = std::size_t{1} << 26;  // a try looks at every worker

  const AssignmentProblem& problem_;
  PlacementCost cost_;
  std::vector<Part> parts_;
  std::vector<int> free_;
  const std::size_t most_tries_;
  Assignment assignment_;
  std::size_t tries_ = 0;
};

}  // namespace

Assignment search_greedily(const AssignmentProblem& problem, int max_rounds) { return Greedy(problem).run(max_rounds); }

}  // namespace tenplex
