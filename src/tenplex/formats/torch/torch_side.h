// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The entry "tenplex.json" of a torch archive: the free text that a safetensors source kept beside its tensors. torch
// does not look at it. There is none where the text says nothing but that the tensors are PyTorch's ("format": "pt").
//
//   {"version":1,"oldest_reader":1,"metadata":{"format":"pt","step":"1000"}}
//
// Pure functions. Threads: safe together. Source: docs/formats/torch.md.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

inline constexpr std::string_view kTorchSideName = "tenplex.json";

/// "" if there is nothing to say.
std::string encode_torch_side(const std::vector<std::pair<std::string, std::string>>& metadata);

/// Errors: corrupt; unsupported for a newer version.
Result<std::vector<std::pair<std::string, std::string>>> decode_torch_side(std::string_view text);

}  // namespace tenplex
