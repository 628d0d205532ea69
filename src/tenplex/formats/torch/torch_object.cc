// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_object.h"

#include <unordered_set>
#include <utility>

#include "tenplex/formats/torch/torch_pickle_writer.h"

namespace tenplex {

Result<TorchObject> make_torch_object(const StateGraph& graph, NodeId node, std::span<const TensorInfo> tensors,
                                      std::string_view folder) {
  TENPLEX_ASSIGN_OR_RETURN(TorchPickleWriter pickle, TorchPickleWriter::make(graph, node, tensors));
  TENPLEX_ASSIGN_OR_RETURN(std::string bytes, pickle.write());
  TorchObject object{ZipLayout(folder), {}};
  object.zip.begin(std::move(bytes));
  for (const OutputStorage& storage : pickle.storages()) {
    object.zip.add_data(storage.size_bytes);
    std::vector<StorageView>& views = object.storages.emplace_back();
    std::unordered_set<TensorId> seen;
    for (const NodeId view : storage.views) {
      const TensorId tensor = graph.view(view).tensor;
      if (seen.insert(tensor).second) {
        views.push_back({tensor, pickle.offset_in_storage(view), graph.view(view).strides});
      }
    }
  }
  object.zip.close();
  return object;
}

}  // namespace tenplex
