// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "tenplex/plan/assignment.h"

namespace tenplex {
namespace {

/// Workers that may change places: same links and capacity, and they hold the same lots. Maps each to the lowest.
std::vector<int> alike_workers(const AssignmentProblem& problem) {
  const auto count = static_cast<std::size_t>(problem.topology->worker_count());
  std::vector<std::vector<std::int64_t>> held(count);
  std::int64_t number = 0;
  for (const Item& item : *problem.items)
    for (const Lot& lot : item.lots) {
      for (const WorkerId worker : lot.holders) held[worker.index()].push_back(number);
      ++number;
    }
  std::vector<int> alike(count);
  for (std::size_t index = 0; index < count; ++index) {
    const Worker& worker = problem.topology->worker(WorkerId(index));
    std::size_t other = 0;
    for (; other < index; ++other) {
      const Worker& known = problem.topology->worker(WorkerId(other));
      if (problem.capacity[index] == problem.capacity[other] && held[index] == held[other] &&
          worker.in_bytes_per_second == known.in_bytes_per_second &&
          worker.out_bytes_per_second == known.out_bytes_per_second)
        break;
    }
    alike[index] = static_cast<int>(other);
  }
  return alike;
}

/// Walks all distinct assignments, depth first: rank after rank, group after group.
class Walk {
 public:
  explicit Walk(const AssignmentProblem& problem)
      : problem_(problem),
        cost_(*problem.items, *problem.topology, problem.ranks),
        alike_(alike_workers(problem)),
        free_(problem.capacity),
        assignment_(static_cast<std::size_t>(problem.ranks)) {
    open_first_of_each_class();
    std::vector<int> sizes = problem.capacity;
    std::sort(sizes.rbegin(), sizes.rend());
    for (std::size_t group = 0; group < problem.groups.size(); ++group) {
      int span = 0;
      for (auto rest = static_cast<int>(problem.groups[group].size()); rest > 0; ++span)
        rest -= sizes[static_cast<std::size_t>(span)];
      span_.push_back(span);
      twin_.push_back(twin_of(group));
    }
  }

  /// The number of assignments with `slack` more workers per group than its least; limit + 1 if there are more.
  std::int64_t count(int slack, std::int64_t limit) {
    start(slack, false);
    limit_ = limit;
    next(0, 0, 0);
    return found_;
  }

  Assignment best(int slack) {
    start(slack, true);
    next(0, 0, 0);
    return best_;
  }

 private:
  void start(int slack, bool costs) {
    slack_ = slack;
    costs_ = costs;
    found_ = 0;
    steps_ = 0;
  }

  /// The last group before this one whose ranks need exactly the same, or −1.
  int twin_of(std::size_t group) const {
    const auto& ranks = problem_.groups[group];
    for (std::size_t other = group; other-- > 0;) {
      const auto& known = problem_.groups[other];
      const bool same = std::equal(ranks.begin(), ranks.end(), known.begin(), known.end(),
                                   [this](DeviceId a, DeviceId b) { return cost_.items_of(a) == cost_.items_of(b); });
      if (same) return static_cast<int>(other);
    }
    return -1;
  }

  WorkerId worker_of(std::size_t group, std::size_t position) const {
    return assignment_[problem_.groups[group][position].index()];
  }

  /// Where a rank may go: workers that run some already, and of unused ones that are alike the lowest, ascending.
  void open_first_of_each_class() {
    for (std::size_t worker = 0; worker < alike_.size(); ++worker)
      if (problem_.capacity[worker] > 0) classes_[alike_[worker]].members.push_back(worker);
    for (const auto& [first, kind] : classes_) open_.insert(kind.members.front());
  }

  void take(std::size_t worker) {
    if (free_[worker] == problem_.capacity[worker]) {
      Class& kind = classes_[alike_[worker]];
      if (++kind.used < kind.members.size()) open_.insert(kind.members[kind.used]);
    }
    if (--free_[worker] == 0) open_.erase(worker);
  }

  /// Undoes the last take().
  void give_back(std::size_t worker) {
    if (free_[worker]++ == 0) open_.insert(worker);
    if (free_[worker] < problem_.capacity[worker]) return;
    Class& kind = classes_[alike_[worker]];
    if (kind.used < kind.members.size()) open_.erase(kind.members[kind.used]);
    --kind.used;
  }

  /// True if the ranks of the group before `position` are on as many workers as it may have.
  bool spans_all(std::size_t group, std::size_t position) const {
    int used = 0;
    for (std::size_t before = 0; before < position; ++before) {
      bool is_first = true;
      for (std::size_t earlier = 0; earlier < before && is_first; ++earlier)
        is_first = worker_of(group, earlier) != worker_of(group, before);
      used += is_first ? 1 : 0;
    }
    return used >= span_[group] + slack_;
  }

  bool runs_in(std::size_t group, std::size_t position, std::size_t worker) const {
    for (std::size_t before = 0; before < position; ++before)
      if (worker_of(group, before).index() == worker) return true;
    return false;
  }

  /// False if the twin group's assignment would be the larger one: the same with the two exchanged is also walked.
  bool in_order(std::size_t group, std::size_t position, std::size_t worker) const {
    if (twin_[group] < 0) return true;
    const auto twin = static_cast<std::size_t>(twin_[group]);
    for (std::size_t before = 0; before < position; ++before)
      if (worker_of(group, before) != worker_of(twin, before)) return true;
    return worker_of(twin, position).index() <= worker;
  }

  /// False if the walk is to end. `busiest`: seconds of the busiest link so far, which ranks to come only make busier.
  bool next(std::size_t group, std::size_t position, double busiest) {
    if (costs_ && found_ > 0 && static_cast<double>(static_cast<float>(busiest)) > best_load_.busiest_seconds)
      return true;
    if (group == problem_.groups.size()) return leaf();
    if (position == problem_.groups[group].size()) return next(group + 1, 0, busiest);
    const DeviceId rank = problem_.groups[group][position];
    const bool only_used = spans_all(group, position);
    const std::vector<std::size_t> candidates(open_.begin(), open_.end());
    for (const std::size_t worker : candidates) {
      if (only_used && !runs_in(group, position, worker)) continue;
      if (!in_order(group, position, worker)) continue;
      if (!costs_ && ++steps_ > kStepsPerAssignment * limit_) return (found_ = limit_ + 1, false);
      take(worker);
      assignment_[rank.index()] = WorkerId(worker);
      const double seconds = costs_ ? cost_.add(rank, WorkerId(worker)) : 0;
      const bool go_on = next(group, position + 1, std::max(busiest, seconds));
      if (costs_) cost_.remove(rank, WorkerId(worker));
      give_back(worker);
      if (!go_on) return false;
    }
    return true;
  }

  bool leaf() {
    ++found_;
    if (!costs_) return found_ <= limit_;
    const LinkLoad load = cost_.load();
    if (found_ == 1 || load < best_load_) {
      best_load_ = load;
      best_ = assignment_;
    }
    return true;
  }

  /// Unused workers of a class are taken in this order, so that the unused ones are the last.
  struct Class {
    std::vector<std::size_t> members;
    std::size_t used = 0;
  };

  static constexpr std::int64_t kStepsPerAssignment = 8;

  const AssignmentProblem& problem_;
  PlacementCost cost_;
  std::vector<int> alike_;
  std::map<int, Class> classes_;
  std::set<std::size_t> open_;
  std::vector<int> free_;
  Assignment assignment_;
  std::vector<int> span_;  // per group: the fewest workers
  std::vector<int> twin_;
  int slack_ = 0;
  bool costs_ = false;
  std::int64_t limit_ = 0;
  std::int64_t found_ = 0;
  std::int64_t steps_ = 0;
  LinkLoad best_load_;
  Assignment best_;
};

}  // namespace

LinkLoad load_of(const AssignmentProblem& problem, const Assignment& assignment) {
  PlacementCost cost(*problem.items, *problem.topology, problem.ranks);
  for (std::size_t rank = 0; rank < assignment.size(); ++rank) cost.add(DeviceId(rank), assignment[rank]);
  return cost.load();
}

// The depth of the walk is the number of ranks; with more than this many there are too many assignments anyway, unless
// there is one worker.
std::optional<ExhaustiveResult> search_all(const AssignmentProblem& problem, std::int64_t limit) {
  constexpr int kMostRanks = 4096;
  if (problem.ranks > kMostRanks) return std::nullopt;
  Walk walk(problem);
  const int most_slack = problem.topology->worker_count();
  for (int slack = 0; slack <= most_slack; ++slack) {
    const std::int64_t count = walk.count(slack, limit);
    if (count > limit) return std::nullopt;
    if (count > 0) return ExhaustiveResult{walk.best(slack), count};
  }
  return std::nullopt;
}

}  // namespace tenplex
