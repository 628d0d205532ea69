// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/whole_tensors.h"

#include <algorithm>

#include "tenplex/formats/whole_tensor.h"

namespace tenplex::safetensors {

bool all_whole(const Collection& collection) {
  for (std::size_t index = 0; index < collection.tensors().size(); ++index)
    if (!is_whole(collection, TensorId(index))) return false;
  return true;
}

std::vector<TensorId> stored_order(const Collection& collection, const std::vector<TensorId>& aliases) {
  std::vector<TensorId> order;
  for (std::size_t index = 0; index < aliases.size(); ++index)
    if (aliases[index] == TensorId(index)) order.push_back(TensorId(index));
  std::sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    const int bits_a = bit_width(collection.tensors()[a.index()].dtype);
    const int bits_b = bit_width(collection.tensors()[b.index()].dtype);
    return bits_a != bits_b ? bits_a > bits_b : a < b;
  });
  return order;
}

}  // namespace tenplex::safetensors
