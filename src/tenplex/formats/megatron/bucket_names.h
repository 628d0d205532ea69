// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of what the distributed optimizer stores as dp_reshardable: flat buckets, and the objects beside them.
//
//   optimizer.distributed.dp_group_idx_1.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_2.exp_avg
//   chained_1.optimizer.distributed.dp_group_idx_3.optimizer/shard_0_1        of several optimizers the second one
//
// Source: Megatron-Core 0.16.1, optimizer/distrib_optimizer.py. Pure. Threads: safe together.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenplex/ptc/dtype.h"

namespace tenplex::megatron {

/// The slot with the parameters themselves in float32.
inline constexpr std::string_view kMasterBucket = "param";

/// Of one optimizer on the ranks that share its state.
struct OptimizerGroup {
  std::int64_t optimizer = 0;  ///< of several that are chained
  std::int64_t group = 0;      ///< dp_group_idx

  friend auto operator<=>(const OptimizerGroup&, const OptimizerGroup&) = default;
};

struct BucketName {
  OptimizerGroup of;
  std::int64_t buffer = 0;
  DType parameter_type = DType::kFloat32;  ///< of the parameters in it
  std::int64_t bucket = 0;
  std::string_view slot;  ///< "param", "exp_avg", …
};

/// Nothing for any other name, also of an object beside buckets.
std::optional<BucketName> parse_bucket_name(std::string_view name);

struct BucketObject {
  OptimizerGroup of;
  std::string_view key;  ///< "optimizer", "per_bucket_numel", …
};

std::optional<BucketObject> parse_bucket_object(std::string_view name);

/// True for both.
bool is_of_bucket(std::string_view name);

}  // namespace tenplex::megatron
