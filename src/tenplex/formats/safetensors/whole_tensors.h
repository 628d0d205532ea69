// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Collections whose tensors are all whole, for files that hold nothing else. Pure functions.
#pragma once

#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::safetensors {

/// True if every tensor has one shard, and one piece of it is the whole tensor (or the tensor is empty).
bool all_whole(const Collection& collection);

/// The data of a whole tensor, without padding. Requires: all_whole(collection), and it is not empty.
Segment whole_segment(const Collection& collection, TensorId tensor);

/// Tensors that stand for themselves, those of wider elements first, else in the collection's order.
std::vector<TensorId> stored_order(const Collection& collection, const std::vector<TensorId>& aliases);

}  // namespace tenplex::safetensors
