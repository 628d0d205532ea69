// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What every device, or group of devices, holds of the state, as a row of shares.
//
//   the state, tensor after tensor:  |== t0 ==|===== t1 =====|= t2 =| …   cut into equal steps of bytes
//   a row:                            1 1 1 1  .5 .5 0 0 0 0  0 0         share of each step that it holds
//
// Pure functions. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tenplex/plan/plan.h"

namespace tenplex {

struct Strip {
  std::string label;
  std::vector<double> shares;  ///< 0 … 1 per device of the row: 1 = a whole copy on every device together counts once
};

struct Strips {
  std::vector<Strip> before;
  std::vector<Strip> after;  ///< as many
  std::string unit;          ///< "device", "worker" or "16 workers"
};

/// At most `most_rows` rows of `steps` shares.
Strips holding_strips(const PlanInput& input, std::size_t most_rows, std::size_t steps);

}  // namespace tenplex
