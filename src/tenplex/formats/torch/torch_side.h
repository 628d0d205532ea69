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

#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex {

inline constexpr std::string_view kTorchSideName = "tenplex.json";

/// "" if there is nothing to say.
std::string encode_torch_side(const JsonTexts& metadata);

/// Errors: corrupt; unsupported for a newer version.
Result<JsonTexts> decode_torch_side(std::string_view text);

}  // namespace tenplex
