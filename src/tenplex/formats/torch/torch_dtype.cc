// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_dtype.h"

#include <array>
#include <utility>

namespace tenplex {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 12> kStorageClasses = {{
    {DType::kFloat32, "FloatStorage"},
    {DType::kFloat64, "DoubleStorage"},
    {DType::kFloat16, "HalfStorage"},
    {DType::kBFloat16, "BFloat16Storage"},
    {DType::kInt64, "LongStorage"},
    {DType::kInt32, "IntStorage"},
    {DType::kInt16, "ShortStorage"},
    {DType::kInt8, "CharStorage"},
    {DType::kUInt8, "ByteStorage"},
    {DType::kBool, "BoolStorage"},
    {DType::kComplex64, "ComplexFloatStorage"},
    {DType::kComplex128, "ComplexDoubleStorage"},
}};

}  // namespace

std::string_view torch_storage_class(DType dtype) {
  for (const auto& [known, name] : kStorageClasses)
    if (known == dtype) return name;
  return {};
}

std::optional<DType> dtype_of_storage_class(std::string_view name) {
  for (const auto& [dtype, known] : kStorageClasses)
    if (known == name) return dtype;
  return std::nullopt;
}

bool torch_has_dtype(DType dtype) { return !is_sub_byte(dtype); }

std::optional<DType> dtype_of_torch_name(std::string_view name) {
  const auto dtype = parse_dtype(name);
  if (!dtype || !torch_has_dtype(*dtype)) return std::nullopt;
  return dtype;
}

}  // namespace tenplex
