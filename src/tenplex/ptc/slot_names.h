// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How optimizer slots are named in common checkpoints: torch's state dict below some key, and Megatron's.
//
//   optim.state.layers.0.weight.exp_avg        parameter layers.0.weight, slot exp_avg
//   optimizer.state.exp_avg.layers.0.weight    the same
#pragma once

#include <array>
#include <string_view>

namespace tenplex {

/// Patterns with {param} and {slot}, in the order in which they count.
inline constexpr std::array<std::string_view, 4> kSlotPatterns = {"*.state.{param}.{slot}", "state.{param}.{slot}",
                                                                  "*.state.{slot}.{param}", "state.{slot}.{param}"};

}  // namespace tenplex
