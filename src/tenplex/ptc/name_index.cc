// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/name_index.h"

namespace tenplex {

NameIndex::NameIndex(std::span<const TensorInfo> tensors) : tensors_(tensors) {
  for (std::uint32_t number = 0; number < tensors.size(); ++number) {
    const std::uint32_t hash = table_.hash(tensors[number].name);
    const auto is_name = [&](std::uint32_t other) { return tensors[other].name == tensors[number].name; };
    if (table_.find(hash, is_name) == TextTable::kNone) {
      table_.add(hash, number);
    } else if (!repeated_) {
      repeated_ = TensorId(std::size_t{number});
    }
  }
}

std::optional<TensorId> NameIndex::find(std::string_view name) const {
  const auto is_name = [&](std::uint32_t number) { return tensors_[number].name == name; };
  const std::uint32_t found = table_.find(table_.hash(name), is_name);
  if (found == TextTable::kNone) return std::nullopt;
  return TensorId(std::size_t{found});
}

}  // namespace tenplex
