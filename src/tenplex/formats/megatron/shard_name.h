// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of Megatron-Core's sharded objects: one of a grid of objects that have a key in common.
//
//   rng_state/shard_0.1_2.2     key "rng_state", the object at (0, 1) of a grid of 2 × 2
//
// Pure functions. Threads: safe together. Source: ShardedObject in megatron/core/dist_checkpointing/mapping.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex::megatron {

struct ShardName {
  std::string_view key;  ///< borrowed from the name
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> shape;
};

/// Errors: corrupt for what is no such name, and for an offset outside of the shape.
Result<ShardName> parse_shard_name(std::string_view name);

/// Every key must have all objects of one grid. Errors: corrupt naming the first that is missing or does not fit; as
/// parse_shard_name().
Result<void> check_shard_names(const std::vector<std::string_view>& names);

}  // namespace tenplex::megatron
