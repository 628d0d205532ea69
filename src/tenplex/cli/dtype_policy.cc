// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/dtype_policy.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

namespace tenplex::cli {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 8> kTargets = {{{"bf16", DType::kBFloat16},
                                                                         {"fp16", DType::kFloat16},
                                                                         {"fp32", DType::kFloat32},
                                                                         {"fp64", DType::kFloat64},
                                                                         {"bfloat16", DType::kBFloat16},
                                                                         {"float16", DType::kFloat16},
                                                                         {"float32", DType::kFloat32},
                                                                         {"float64", DType::kFloat64}}};

bool is_convertible(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

bool holds_fractions(DType dtype) {
  const std::string_view name = to_string(dtype);
  return name.starts_with("float") || name.starts_with("bfloat") || name.starts_with("complex");
}

}  // namespace

Result<std::optional<DType>> parse_dtype_policy(std::string_view policy) {
  if (policy == "error") return std::optional<DType>();
  constexpr std::string_view kPrefix = "cast:";
  if (policy.starts_with(kPrefix))
    for (const auto& [name, dtype] : kTargets)
      if (policy.substr(kPrefix.size()) == name) return std::optional(dtype);
  return invalid_argument(
      fmt::format("'{}' is no dtype policy: expected error, cast:bf16, cast:fp16, cast:fp32 or cast:fp64", policy));
}

Result<DTypeCounts> apply_dtype_policy(const std::string& policy, TensorList* tensors) {
  TENPLEX_ASSIGN_OR_RETURN(const auto target, parse_dtype_policy(policy));
  DTypeCounts left;
  if (!target) return left;
  std::vector<TensorInfo> converted = **tensors;
  for (TensorInfo& tensor : converted) {
    if (is_convertible(tensor.dtype)) {
      tensor.dtype = *target;
    } else if (holds_fractions(tensor.dtype)) {
      ++left[tensor.dtype];
    }
  }
  *tensors = std::make_shared<const std::vector<TensorInfo>>(std::move(converted));
  return left;
}

CLI::Validator dtype_policy_validator() {
  return CLI::Validator(
      [](std::string& policy) {
        const auto parsed = parse_dtype_policy(policy);
        return parsed ? std::string() : parsed.error().to_string();
      },
      "");
}

}  // namespace tenplex::cli
