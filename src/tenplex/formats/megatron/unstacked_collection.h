// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How Megatron-Core cuts tensors that stack layers or experts: besides what the layout says, one chunk per layer and
// expert.
//
//   decoder.layers.mlp.experts.experts.linear_fc2.weight [layers, experts, rows, columns]
//   shard of layers 0–1, experts 4–7   ─►  pieces (0, 4), (0, 5), … (1, 7), each [1, 1, rows, columns]
//
// The local arrays of the shards stay as they are.
#pragma once

#include <memory>
#include <string_view>

#include "tenplex/ptc/collection.h"

namespace tenplex::megatron {

/// Leading dimensions that stack something, by the tensor's name: one for "decoder.layers." without a number behind it,
/// one for "experts.experts." likewise. Names of optimizer slots hold that of their parameter.
int stacked_dims(std::string_view name);

/// `collection` with its pieces cut so. Keeps it.
std::unique_ptr<Collection> unstacked(std::unique_ptr<Collection> collection);

}  // namespace tenplex::megatron
