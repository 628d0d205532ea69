// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The archives that DCP stores, one per item: of a tensor, or of an object (which may have whole tensors inside).
//
// Resource; borrows the graph and the tensors. Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/formats/torch/torch_object.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex::dcp {

/// Top folder of the archives of items.
inline constexpr std::string_view kArchiveFolder = "archive";

class ItemLayouts {
 public:
  ItemLayouts(const StateGraph& graph, std::span<const TensorInfo> tensors) : graph_(graph), tensors_(tensors) {}
  ItemLayouts(const ItemLayouts&) = delete;
  ItemLayouts& operator=(const ItemLayouts&) = delete;

  /// Bytes of the archive of a contiguous tensor. Errors: unsupported for types that torch does not have.
  Result<std::int64_t> tensor_length(DType dtype, const Dims& shape) const;

  /// Errors: unsupported for what no pickle can express.
  Result<TorchObject> object(NodeId node, std::string_view top_folder = kArchiveFolder) const;

  /// Tensor and storage nodes that the given nodes lead to; kNoNode is passed over.
  std::vector<NodeId> tensors_inside(std::span<const NodeId> nodes) const;

 private:
  const StateGraph& graph_;
  std::span<const TensorInfo> tensors_;
};

}  // namespace tenplex::dcp
