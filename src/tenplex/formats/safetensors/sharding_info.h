// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The entry of a safetensors file's metadata that says where its tensors lie in those they are cut from.
//
//   "DCP_SHARDING_INFO": "{\"w\":{\"saved_offsets\":[4,0]}, …}"      one chunk per tensor and file
//
// Pure functions. Threads: safe together. Source: torch/distributed/checkpoint/hf_storage.py and _hf_utils.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tenplex/base/result.h"
#include "tenplex/formats/safetensors/header.h"

namespace tenplex::safetensors {

inline constexpr std::string_view kDcpShardingKey = "DCP_SHARDING_INFO";

using ShardingInfo = std::unordered_map<std::string, Dims>;  ///< tensor, offset of its first element

/// Nothing where the header has no such entry. Errors: corrupt; unsupported for more than kMaxRank dimensions.
Result<std::optional<ShardingInfo>> read_sharding_info(const Header& header);

}  // namespace tenplex::safetensors
