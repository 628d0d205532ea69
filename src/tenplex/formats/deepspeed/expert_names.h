// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names of the parameters of experts in DeepSpeed's MoE layers. Every expert parallel rank numbers its own experts
// from 0; the files of experts have their numbers in the whole layer.
//
//   layers.1.moe.deepspeed_moe.experts.deepspeed_experts.0.up.weight on rank 1 of ranks with 2 experts
//     ─► layers.1.moe.deepspeed_moe.experts.deepspeed_experts.2.up.weight
//
// Value type. Threads: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenplex::deepspeed {

struct ExpertName {
  std::string_view layer;  ///< up to the number, with its dot
  std::int64_t expert = 0;
  std::string_view rest;  ///< from the dot after the number

  std::string with(std::int64_t number) const;
};

/// Nothing if the name is of no expert. The parts are views of `name`.
std::optional<ExpertName> parse_expert_name(std::string_view name);

/// layer_L_expert_E_mp_rank_TT_model_states.pt
struct ExpertFile {
  std::int64_t layer = 0;  ///< MoE layers are numbered, not layers of the model
  std::int64_t expert = 0;
  std::int64_t model_rank = 0;
};
std::optional<ExpertFile> parse_expert_file(std::string_view name);

/// The X of expp_rank_X_mp_rank_00_optim_states.pt, which a job without ZeRO writes.
std::optional<std::int64_t> parse_expert_optimizer(std::string_view name);

}  // namespace tenplex::deepspeed
