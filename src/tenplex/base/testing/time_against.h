// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// For benchmarks: how fast something is compared with a reference, on a machine that others use too. The two alternate,
// so that both see the same disturbances, and the fastest run of each counts.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace tenplex {

struct Comparison {
  double seconds = std::numeric_limits<double>::infinity();
  double reference_seconds = std::numeric_limits<double>::infinity();

  /// 0.8: the reference does in 80 % of the time what the candidate does.
  double speed_of_reference() const { return reference_seconds / seconds; }
};

template <typename Candidate, typename Reference>
Comparison time_against(int repetitions, Candidate candidate, Reference reference) {
  const auto seconds_of = [](auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Comparison best;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    best.reference_seconds = std::min(best.reference_seconds, seconds_of(reference));
    best.seconds = std::min(best.seconds, seconds_of(candidate));
  }
  return best;
}

}  // namespace tenplex
