// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/item_layout.h"

#include <fmt/format.h>

#include "tenplex/formats/torch/torch_dtype.h"
#include "tenplex/formats/torch/torch_item.h"

namespace tenplex::dcp {

Result<std::int64_t> ItemLayouts::tensor_length(DType dtype, const Dims& shape) const {
  if (!torch_has_dtype(dtype)) {
    return unsupported(
        fmt::format("a dcp checkpoint holds torch tensors, and torch has no dtype for {}", to_string(dtype)));
  }
  const TensorItemSizes sizes = tensor_item_sizes(dtype, shape);
  return sizes.before + sizes.data + sizes.after;
}

Result<TorchObject> ItemLayouts::object(NodeId node, std::string_view top_folder) const {
  return make_torch_object(graph_, node, tensors_, top_folder);
}

std::vector<NodeId> ItemLayouts::tensors_inside(std::span<const NodeId> nodes) const {
  std::vector<NodeId> found;
  std::vector<NodeId> open;
  std::vector<bool> seen(graph_.size(), false);
  const auto visit = [&](NodeId id) {
    if (id == kNoNode || seen[id]) return;
    seen[id] = true;
    open.push_back(id);
  };
  for (const NodeId node : nodes) visit(node);
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (graph_[id].kind == NodeKind::kTensor || graph_[id].kind == NodeKind::kStorage) found.push_back(id);
    graph_.for_each_edge(id, visit);
  }
  return found;
}

}  // namespace tenplex::dcp
