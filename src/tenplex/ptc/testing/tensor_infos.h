// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors in one line, for tests.
#pragma once

#include <string>
#include <utility>

#include "tenplex/ptc/tensor.h"

namespace tenplex {

inline TensorInfo f32(std::string name, const Dims& shape) { return {std::move(name), DType::kFloat32, shape}; }

}  // namespace tenplex
