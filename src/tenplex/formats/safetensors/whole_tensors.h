// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Collections whose tensors are all whole, for files that hold nothing else. Pure functions.
#pragma once

#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::safetensors {

/// True if is_whole() every tensor.
bool all_whole(const Collection& collection);

/// Tensors that stand for themselves, those of wider elements first, else in the collection's order.
std::vector<TensorId> stored_order(const Collection& collection, const std::vector<TensorId>& aliases);

}  // namespace tenplex::safetensors
