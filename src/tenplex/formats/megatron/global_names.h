// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A rank of Megatron numbers its layers and experts from 0. Their numbers in the whole model:
//
//   "decoder.layers.1.mlp.linear_fc1.weight", layers before it 4      ─► "decoder.layers.5.mlp.linear_fc1.weight"
//   "…mlp.experts.local_experts.2.linear_fc1.weight", experts before it 8  ─► "…local_experts.10.linear_fc1.weight"
//   "…mlp.experts.linear_fc1.weight2", grouped                             ─► "…linear_fc1.weight10"
//
// Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenplex::megatron {

/// Where the numbers stand in a name. The parts between them are views of the name.
struct NumberedName {
  std::string_view stack;         ///< "decoder" or "encoder": whose layers; empty where there is no layer
  std::string_view before_layer;  ///< "decoder.layers."; the whole name where there is no layer
  std::optional<std::int64_t> layer;
  std::string_view before_expert;  ///< behind the layer, up to the expert's number, or all of it
  std::optional<std::int64_t> expert;
  std::string_view after_expert;

  /// The name with other numbers. Requires: a number is given for each that is there.
  std::string with(std::int64_t other_layer, std::int64_t other_expert) const;
};

NumberedName split_numbers(std::string_view name);

}  // namespace tenplex::megatron
