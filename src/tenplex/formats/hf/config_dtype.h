// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The element type that a model's config.json names, after its tensors were converted to another one.
//
//   {"architectures": …, "torch_dtype": "float32", …}  ──► bfloat16 ──►  {"architectures": …, "torch_dtype":
//   "bfloat16", …}
//
// transformers loads the tensors as what `dtype` (`torch_dtype` before version 5) says, whatever the files hold.
// Threads: as CheckpointReader. Source: transformers, configuration_utils.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex::hf {

/// The text of a config.json with `dtype` in place of each floating-point type that a member "dtype" or "torch_dtype"
/// names, also in configurations inside, but for "quantization_config"; every other byte as it is.
/// Errors: corrupt if the text is no JSON object.
Result<std::string> with_dtype(std::string_view config, DType dtype);

/// The checkpoint with such a config.json, if it has one. The other one is kept.
/// Errors: corrupt; what reading the file gives.
Result<std::shared_ptr<const CheckpointReader>> with_config_dtype(std::shared_ptr<const CheckpointReader> reader,
                                                                  DType dtype);

}  // namespace tenplex::hf
