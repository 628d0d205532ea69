// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// --dtype-policy: "error" keeps every element type, "cast:bf16" converts floating-point tensors. Integer, bool, complex
// and 8-bit floating-point tensors are never converted.
#pragma once

#include <string>
#include <vector>

#include "tenplex/cli/command.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex::cli {

/// Changes the dtypes of the tensors that the policy converts. Errors: invalid_argument for an unknown policy.
Result<void> apply_dtype_policy(const std::string& policy, std::vector<TensorInfo>* tensors);

CLI::Validator dtype_policy_validator();

}  // namespace tenplex::cli
