// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors that a collection leaves whole, for files that hold nothing else. Pure functions.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// True if the tensor has one shard, and one piece of it is the whole tensor; padding may surround it. Also if the
/// tensor is empty or an alias.
bool is_whole(const Collection& collection, TensorId tensor);

/// The data of a whole tensor, without padding. Requires: is_whole(), and it is no alias.
Segment whole_segment(const Collection& collection, TensorId tensor);

}  // namespace tenplex
