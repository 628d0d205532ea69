// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// --dtype-policy: "error" keeps every element type, "cast:bf16" converts float16, bfloat16, float32 and float64.
// Integer and bool tensors are never converted, nor complex ones, nor those of 8 bits and fewer: these come with scales
// of their own, without which their numbers mean little.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenplex/cli/command.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex::cli {

/// Number of tensors by dtype.
using DTypeCounts = std::map<DType, std::int64_t>;

/// The dtype to convert to, or nothing for "error". Errors: invalid_argument for an unknown policy.
Result<std::optional<DType>> parse_dtype_policy(std::string_view policy);

/// Gives the tensors that the policy converts other dtypes, in a list of their own. Returns the floating-point and
/// complex tensors that a cast leaves as they are. Errors: invalid_argument for an unknown policy.
Result<DTypeCounts> apply_dtype_policy(const std::string& policy, TensorList* tensors);

CLI::Validator dtype_policy_validator();

}  // namespace tenplex::cli
