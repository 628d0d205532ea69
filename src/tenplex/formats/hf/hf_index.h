// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// model.safetensors.index.json: which file of a sharded Hugging Face model holds which tensor.
//
//   {"metadata":{"total_size":988097824},"weight_map":{"lm_head.weight":"model-00002-of-00002.safetensors", …}}
//
// Pure functions. Threads: safe together. Source: transformers' and huggingface_hub's serialization.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex::hf {

/// Of every file with tensors.
inline constexpr std::string_view kExtension = ".safetensors";

struct Index {
  std::optional<std::int64_t> total_size;                       ///< bytes of all tensors, as stated
  std::vector<std::pair<std::string, std::string>> weight_map;  ///< tensor, file, in the index's order
  std::vector<std::string> passed_over;                         ///< members of "metadata" that mean nothing to us
};

/// Errors: corrupt; invalid_argument for a file name that leaves the folder.
Result<Index> parse_index(std::string_view text);

/// As transformers writes it: sorted by name, two spaces deep. Requires: names are valid UTF-8.
std::string write_index(std::int64_t total_size, std::int64_t total_parameters,
                        std::vector<std::pair<std::string, std::string>> weight_map);

/// "model-00002-of-00005.safetensors" → {"model", 2, 5}; nothing for other names.
struct ShardName {
  std::string stem;
  std::int64_t number = 0;
  std::int64_t count = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view name);
std::string shard_name(std::int64_t number, std::int64_t count);

}  // namespace tenplex::hf
