// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the name of a tensor in a torch_dist checkpoint says, and what the module's parameter is called.
//
//   decoder.layers.3.mlp.experts.experts.linear_fc1.weight     layer 3, experts stacked
//     ─► expert 5:  decoder.layers.3.mlp.experts.linear_fc1.weight5            grouped
//                   decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.weight
//   decoder.layers.mlp.linear_fc1.weight_w                     layers stacked, the gate's half
//   decoder.layers.0.self_attention.linear_qkv.layer_norm_weight
//     ─► decoder.layers.0.input_layernorm.weight               where norms are modules of their own
//
// Source: Megatron-Core 0.16.1, sharded_state_dict() of its modules. Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenplex::megatron {

/// What the names of the stored tensors do not tell of the modules, and what their order depends on.
struct ModelForm {
  bool has_own_norms = false;       ///< norms are modules before the linear ones, not part of them
  bool has_grouped_experts = true;  ///< the experts of a layer are one module, not one each

  friend bool operator==(const ModelForm&, const ModelForm&) = default;
};

enum class Half : std::uint8_t { kWhole, kGate, kUp };

struct StoredName {
  std::string_view before_layer;  ///< "decoder.layers."; empty where there is no layer
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> expert;
  bool has_layer = false;   ///< of a layer, or of all layers, the layer being its first dimension
  bool has_expert = false;  ///< the same of experts; the expert is the next dimension
  std::string_view tail;    ///< what follows, without the half: "linear_fc1.weight" of an expert
  Half half = Half::kWhole;

  /// Dimensions that number layers and experts.
  int stacked() const { return (has_layer && !layer ? 1 : 0) + (has_expert && !expert ? 1 : 0); }

  /// Requires: numbers for what the name has no number of.
  std::string of_module(const ModelForm& form, std::int64_t layer_number, std::int64_t expert_number) const;
};

/// The parts are views of the name.
StoredName parse_stored_name(std::string_view name);

}  // namespace tenplex::megatron
