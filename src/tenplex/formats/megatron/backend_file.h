// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// metadata.json of a Megatron-Core checkpoint: which library wrote the tensors, and how.
//
//   {"sharded_backend": "torch_dist", "sharded_backend_version": 1,       of all versions
//    "common_backend": "torch", "common_backend_version": 1}              where there is a common.pt (0.16 and before)
//
// It is written last: its presence means that the save finished.
//
// Pure functions. Threads: safe together. Source: megatron/core/dist_checkpointing/core.py.
#pragma once

#include <string>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::megatron {

inline constexpr std::string_view kBackendFileName = "metadata.json";
inline constexpr std::int64_t kMaxBackendBytes = std::int64_t{1} << 20;

struct BackendFile {
  JsonTexts others;  ///< key, JSON of its value: members that are none of the four
};

/// Errors: corrupt for what is no such file; unsupported naming another backend or version.
Result<BackendFile> decode_backend_file(std::string_view text);

/// The text that Megatron-Core itself writes, then `others`, which are as in BackendFile.
std::string encode_backend_file(bool has_common_file, const JsonTexts& others);

/// As one text for CheckpointInfo::metadata, and back. Errors: corrupt.
std::string encode_others(const JsonTexts& others);
Result<JsonTexts> decode_others(std::string_view text);

}  // namespace tenplex::megatron
