// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// for_each_window: plans tensors and visits their windows, round by round, both in parallel.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tenplex/base/executor.h"
#include "tenplex/base/progress.h"

namespace tenplex {

struct ScanRounds {
  std::int64_t most_cost = 16 << 10;  ///< sum of cost(tensor) per round; a tensor's is about its number of chunks
  std::int64_t most_tensors = 8 << 10;
};

/// For `count` tensors: cost(i), then plan(i) → Result<State>, window_count(state), and body(i, state, window).
/// plan() and body() run in parallel. Errors: theirs; cancelled.
template <typename Cost, typename Plan, typename WindowCount, typename Body>
Result<void> for_each_window(Executor& executor, const Progress& progress, std::size_t count, Cost cost, Plan plan,
                             WindowCount window_count, Body body, const ScanRounds& rounds = {}) {
  using State = typename decltype(plan(std::size_t{0}))::value_type;
  for (std::size_t begin = 0; begin < count;) {
    std::size_t end = begin;
    for (std::int64_t sum = 0;
         end < count && sum < rounds.most_cost && static_cast<std::int64_t>(end - begin) < rounds.most_tensors; ++end)
      sum += cost(end);
    std::vector<std::optional<State>> states(end - begin);
    TENPLEX_TRY(executor.for_each(
        static_cast<std::int64_t>(end - begin),
        [&](std::int64_t i) -> Result<void> {
          const auto index = static_cast<std::size_t>(i);
          TENPLEX_ASSIGN_OR_RETURN(State state, plan(begin + index));
          states[index].emplace(std::move(state));
          return {};
        },
        progress.stop()));
    std::vector<std::pair<std::size_t, std::int64_t>> windows;
    for (std::size_t i = 0; i < states.size(); ++i)
      for (std::int64_t window = 0; window < window_count(*states[i]); ++window) windows.emplace_back(i, window);
    TENPLEX_TRY(executor.for_each(
        static_cast<std::int64_t>(windows.size()),
        [&](std::int64_t task) {
          const auto& [i, window] = windows[static_cast<std::size_t>(task)];
          return body(begin + i, *states[i], window);
        },
        progress.stop()));
    begin = end;
  }
  return {};
}

}  // namespace tenplex
