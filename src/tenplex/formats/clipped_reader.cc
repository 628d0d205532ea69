// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/clipped_reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tenplex/formats/chunk_check.h"
#include "tenplex/formats/derived_reader.h"
#include "tenplex/formats/state/object_groups.h"
#include "tenplex/formats/state/row_major.h"

namespace tenplex {
namespace {

/// What is left of the box, or nothing. Requires: `shape` is not larger than `stored`, which holds the box.
std::optional<Box> clipped(Box box, const Dims& stored, const Dims& shape) {
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] == stored[dim]) continue;
    if (box.offset[dim] >= shape[dim]) return std::nullopt;
    box.extent[dim] = std::min(box.extent[dim], shape[dim] - box.offset[dim]);
  }
  return box;
}

/// Gives the clipped tensors that were row-major the strides of their new shape, unless other views share the
/// storage.
class ViewClipper {
 public:
  ViewClipper(std::span<const TensorInfo> before, std::span<const TensorInfo> after, StateGraph* graph)
      : before_(before), after_(after), graph_(*graph) {}

  void clip_all() {
    if (graph_.root == kNoNode) return;
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (is_of_tensor(id)) note(id);
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (is_of_tensor(id)) clip(id);
    split_unlike_objects(after_, &graph_);
  }

 private:
  struct Storage {
    TensorView first;
    bool shared = false;  // by views that are not alike
  };

  // Nodes that nothing leads to may be of no tensor.
  bool is_of_tensor(NodeId id) const {
    const NodeKind kind = graph_[id].kind;
    return (kind == NodeKind::kTensor || kind == NodeKind::kStorage) && graph_.view(id).tensor.index() < after_.size();
  }

  void note(NodeId id) {
    const TensorView view = graph_.view(id);
    Storage& storage = storages_.emplace(view.storage, Storage{view}).first->second;
    const std::size_t first = storage.first.tensor.index();
    const std::size_t tensor = view.tensor.index();
    if (graph_[id].kind == NodeKind::kStorage || view.offset != storage.first.offset ||
        view.strides != storage.first.strides || before_[tensor].shape != before_[first].shape ||
        after_[tensor].shape != after_[first].shape)
      storage.shared = true;
  }

  void clip(NodeId id) const {
    TensorView view = graph_.view(id);
    const Dims& before = before_[view.tensor.index()].shape;
    const Dims& after = after_[view.tensor.index()].shape;
    if (before == after || storages_.at(view.storage).shared || !is_row_major(view.strides, before)) return;
    view.strides = row_major_strides(after);
    graph_.set_view(id, view);
  }

  std::span<const TensorInfo> before_;
  std::span<const TensorInfo> after_;
  StateGraph& graph_;
  std::map<std::uint32_t, Storage> storages_;
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> clip(std::unique_ptr<CheckpointReader> reader,
                                               std::vector<TensorInfo> tensors) {
  const CheckpointInfo& stored = reader->info();
  TENPLEX_CHECK(tensors.size() == stored.tensors.size());
  std::int64_t count = 0;
  for (std::size_t index = 0; index < tensors.size(); ++index)
    count += tensors[index].shape == stored.tensors[index].shape ? 0 : 1;
  if (count == 0) return reader;
  TENPLEX_TRY(check_chunks(stored));
  CheckpointInfo info = stored;
  info.clipped_tensors = count;
  info.tensors = std::move(tensors);
  info.chunks = {};
  std::vector<std::uint32_t> chunks;
  for (std::size_t index = 0; index < stored.chunks.size(); ++index) {
    Chunk chunk = stored.chunks[index];
    const std::size_t tensor = chunk.tensor.index();
    auto box = clipped(std::move(chunk.box), stored.tensors[tensor].shape, info.tensors[tensor].shape);
    if (!box) continue;
    chunk.box = std::move(*box);
    info.chunks.add(chunk);
    chunks.push_back(static_cast<std::uint32_t>(index));
  }
  ViewClipper(stored.tensors, info.tensors, &info.state).clip_all();
  std::erase_if(info.aliases, [&](const auto& alias) {
    return info.tensors[alias.first.index()].shape != info.tensors[alias.second.index()].shape;
  });
  return std::unique_ptr<CheckpointReader>(
      std::make_unique<DerivedReader>(std::move(reader), std::move(info), std::move(chunks)));
}

}  // namespace tenplex
