// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// distrib_optim.pt: the state of the distributed optimizer of a model parallel rank, gathered from all its data
// parallel ranks into flat tensors, without the padding at the end of each bucket.
//
//   {"buckets_coalesced": True,
//    0: {(torch.bfloat16, torch.float32): {"param": [228], "exp_avg": [228], "exp_avg_sq": [228], "numel_unpadded":
//    228}}}
//   with experts apart: [the same of other parameters, that of experts]; None where another rank's file has it
//
// A number per buffer: of each virtual stage, those of each type of parameters.
//
// Source: Megatron-Core 0.16.1, optimizer/distrib_optimizer.py (get_parameter_state_dp_zero). Pure. Threads: safe
// together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex::megatron_legacy {

inline constexpr std::string_view kDistributedFile = "distrib_optim.pt";
/// The slot with the parameter itself in float32.
inline constexpr std::string_view kDistributedMaster = "param";

struct FlatState {
  DType parameter_type = DType::kFloat32;  ///< of the parameters in it
  std::int64_t size = 0;                   ///< elements
  std::map<std::string, TensorId, std::less<>> slots;
};

/// The buffers of each optimizer, or nothing where another rank's file has them.
using DistributedState = std::vector<std::optional<std::vector<FlatState>>>;

/// Errors: unsupported for the structure that Megatron-Core wrote before buckets were joined; corrupt for any other.
Result<DistributedState> read_distributed_state(const CheckpointInfo& file);

}  // namespace tenplex::megatron_legacy
