// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/model_order.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace tenplex::megatron {
namespace {

constexpr std::array<std::string_view, 3> kFirst = {"embedding.word_embeddings.", "embedding.position_embeddings.",
                                                    "embedding.tokentype_embeddings."};
constexpr std::array<std::string_view, 4> kLast = {"decoder.final_layernorm.weight", "decoder.final_layernorm.bias",
                                                   "output_layer.weight", "output_layer.bias"};
// Beginnings of what follows the number of the layer.
constexpr std::array<std::string_view, 43> kInLayer = {
    ".input_layernorm.weight",
    ".input_layernorm.bias",
    ".self_attention.linear_proj.weight",
    ".self_attention.linear_proj.bias",
    ".self_attention.linear_qkv.layer_norm_weight",
    ".self_attention.linear_qkv.layer_norm_bias",
    ".self_attention.linear_qkv.weight",
    ".self_attention.linear_qkv.bias",
    ".self_attention.linear_q_proj.weight",
    ".self_attention.linear_q_down_proj.weight",
    ".self_attention.linear_q_up_proj.layer_norm_weight",
    ".self_attention.linear_q_up_proj.weight",
    ".self_attention.linear_kv_down_proj.weight",
    ".self_attention.linear_kv_up_proj.layer_norm_weight",
    ".self_attention.linear_kv_up_proj.weight",
    ".self_attention.q_layernorm.weight",
    ".self_attention.q_layernorm.bias",
    ".self_attention.k_layernorm.weight",
    ".self_attention.k_layernorm.bias",
    ".self_attention.kv_layernorm.weight",
    ".post_self_attn_layernorm.weight",
    ".post_self_attn_layernorm.bias",
    ".pre_mlp_layernorm.weight",
    ".pre_mlp_layernorm.bias",
    ".mlp.router.weight",
    ".mlp.router.bias",
    ".mlp.router.expert_bias",
    ".mlp.experts.local_experts.",
    ".mlp.experts.linear_fc1.weight",
    ".mlp.experts.linear_fc1.bias",
    ".mlp.experts.linear_fc2.weight",
    ".mlp.experts.linear_fc2.bias",
    ".mlp.shared_experts.gate_weight",
    ".mlp.shared_experts.linear_fc1.weight",
    ".mlp.shared_experts.linear_fc1.bias",
    ".mlp.shared_experts.linear_fc2.weight",
    ".mlp.shared_experts.linear_fc2.bias",
    ".mlp.linear_fc1.layer_norm_weight",
    ".mlp.linear_fc1.layer_norm_bias",
    ".mlp.linear_fc1.weight",
    ".mlp.linear_fc1.bias",
    ".mlp.linear_fc2.weight",
    ".mlp.linear_fc2.bias",
};
constexpr std::array<std::string_view, 2> kBehindMlp = {".post_mlp_layernorm.weight", ".post_mlp_layernorm.bias"};
constexpr std::array<std::string_view, 4> kOfExpert = {".linear_fc1.weight", ".linear_fc1.bias", ".linear_fc2.weight",
                                                       ".linear_fc2.bias"};

// The first beginning of the text, or the size of the list.
std::size_t find_beginning(std::span<const std::string_view> beginnings, std::string_view text) {
  const auto found = std::find_if(beginnings.begin(), beginnings.end(),
                                  [text](std::string_view beginning) { return text.starts_with(beginning); });
  return static_cast<std::size_t>(found - beginnings.begin());
}

}  // namespace

ModelPlace place_in_model(const NumberedName& name) {
  ModelPlace place;
  if (!name.layer) {
    const std::size_t first = find_beginning(kFirst, name.before_layer);
    if (first < kFirst.size()) {
      place.module = first;
      return place;
    }
    place.section = kBehindLayers;
    place.module = find_beginning(kLast, name.before_layer);
    place.known = place.module < kLast.size();
    return place;
  }
  place.section = 1;
  place.layer = *name.layer;
  place.module = find_beginning(kInLayer, name.before_expert);
  place.known = place.module < kInLayer.size();
  if (!place.known) {
    const std::size_t behind = find_beginning(kBehindMlp, name.before_expert);
    place.module += behind;
    place.known = behind < kBehindMlp.size();
  }
  if (name.expert) {
    place.expert = *name.expert;
    place.of_expert = find_beginning(kOfExpert, name.after_expert);
  }
  return place;
}

}  // namespace tenplex::megatron
