// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How torch names element types in data.pkl: a class per storage ("torch FloatStorage") for the older ones, rebuilt by
// _rebuild_tensor_v2, and a dtype ("torch uint16") over torch.storage.UntypedStorage for the newer, _rebuild_tensor_v3.
// Threads: functions without state. Source: torch/storage.py, torch/_tensor.py.
#pragma once

#include <optional>
#include <string_view>

#include "tenplex/ptc/dtype.h"

namespace tenplex {

/// "FloatStorage" for float32; empty for the types that have no storage class.
std::string_view torch_storage_class(DType dtype);

/// The type of a storage class, or nothing.
std::optional<DType> dtype_of_storage_class(std::string_view name);

/// True for the types that torch can hold in a tensor of whole elements.
bool torch_has_dtype(DType dtype);

/// The type of a torch dtype global ("float8_e4m3fn"), or nothing where torch_has_dtype() is false or there is none.
std::optional<DType> dtype_of_torch_name(std::string_view name);

}  // namespace tenplex
