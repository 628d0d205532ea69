// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// NameIndex: which tensor has a name.
//
// Resource with value-like behaviour; borrows the tensors. Cost: about 14 B per tensor. Threads: const calls are safe
// together.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tenplex/base/ids.h"
#include "tenplex/base/text_table.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(std::span<const TensorInfo> tensors);

  /// The first tensor of that name.
  std::optional<TensorId> find(std::string_view name) const;

  /// The first tensor whose name another one before it has.
  std::optional<TensorId> repeated() const { return repeated_; }

 private:
  std::span<const TensorInfo> tensors_;
  TextTable table_;
  std::optional<TensorId> repeated_;
};

}  // namespace tenplex
