// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/item_layout.h"

#include <fmt/format.h>

#include <unordered_set>

#include "tenplex/formats/torch/torch_dtype.h"
#include "tenplex/formats/torch/torch_item.h"
#include "tenplex/formats/torch/torch_pickle_writer.h"

namespace tenplex::dcp {

Result<std::int64_t> ItemLayouts::tensor_length(DType dtype, const Dims& shape) const {
  if (!torch_has_dtype(dtype)) {
    return unsupported(
        fmt::format("a dcp checkpoint holds torch tensors, and torch has no dtype for {}", to_string(dtype)));
  }
  const TensorItemSizes sizes = tensor_item_sizes(dtype, shape);
  return sizes.before + sizes.data + sizes.after;
}

Result<ItemLayouts::Object> ItemLayouts::object(NodeId node, std::string_view top_folder) const {
  TENPLEX_ASSIGN_OR_RETURN(TorchPickleWriter pickle, TorchPickleWriter::make(graph_, node, tensors_));
  TENPLEX_ASSIGN_OR_RETURN(std::string bytes, pickle.write());
  Object object{ZipLayout(top_folder), {}};
  object.zip.begin(std::move(bytes));
  for (const OutputStorage& storage : pickle.storages()) {
    object.zip.add_data(storage.size_bytes);
    std::vector<StorageView>& views = object.storages.emplace_back();
    std::unordered_set<TensorId> seen;
    for (const NodeId view : storage.views) {
      const TensorId tensor = graph_.view(view).tensor;
      if (seen.insert(tensor).second) {
        views.push_back({tensor, pickle.offset_in_storage(view), graph_.view(view).strides});
      }
    }
  }
  object.zip.close();
  return object;
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
