// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The order that Megatron-Core's GPTModel has its parameters in, which its optimizers number them by:
//
//   embedding.… ─ layers by number: input_layernorm, self_attention, pre_mlp_layernorm, mlp ─ final_layernorm ─ head
//
// Source: named_parameters() of Megatron-Core 0.16.1. Pure. Threads: safe together.
#pragma once

#include <compare>
#include <cstdint>

#include "tenplex/formats/megatron/global_names.h"

namespace tenplex::megatron {

struct ModelPlace {
  std::size_t section = 0;  ///< before, in or behind the layers
  std::int64_t layer = 0;
  std::size_t module = 0;
  std::int64_t expert = 0;
  std::size_t of_expert = 0;
  bool known = true;  ///< false: the model's order does not say where among its likes it stands

  friend auto operator<=>(const ModelPlace&, const ModelPlace&) = default;
};

inline constexpr std::size_t kBeforeLayers = 0;
inline constexpr std::size_t kBehindLayers = 2;

ModelPlace place_in_model(const NumberedName& name);

}  // namespace tenplex::megatron
