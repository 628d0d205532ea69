// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/object_groups.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace tenplex {
namespace {

void set_object(NodeId id, std::uint32_t object, StateGraph* graph) {
  TensorView view = graph->view(id);
  view.object = object;
  graph->set_view(id, view);
}

/// The leaves that have a number and may have one.
std::vector<NodeId> numbered_leaves(std::size_t tensor_count, StateGraph* graph) {
  std::vector<NodeId> leaves;
  for (NodeId id = 0; id < graph->size(); ++id) {
    const NodeKind kind = (*graph)[id].kind;
    if (kind != NodeKind::kTensor && kind != NodeKind::kStorage) continue;
    const TensorView view = graph->view(id);
    if (view.object == 0) continue;
    if (kind == NodeKind::kTensor && view.tensor.index() < tensor_count) {
      leaves.push_back(id);
    } else {
      set_object(id, 0, graph);
    }
  }
  return leaves;
}

}  // namespace

void split_unlike_objects(std::span<const TensorInfo> tensors, StateGraph* graph) {
  std::vector<NodeId> leaves = numbered_leaves(tensors.size(), graph);
  if (leaves.empty()) return;
  const auto key = [&](NodeId id) {
    const TensorView view = graph->view(id);
    const TensorInfo& tensor = tensors[view.tensor.index()];
    return std::tuple(view.object, view.storage, view.offset, view.strides, tensor.shape, tensor.dtype,
                      view.requires_grad, view.parameter);
  };
  std::sort(leaves.begin(), leaves.end(),
            [&](NodeId a, NodeId b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  const auto object_at = [&](std::size_t leaf) { return graph->view(leaves[leaf]).object; };
  std::uint32_t last = object_at(leaves.size() - 1);
  std::uint32_t before = 0;  // object of the run before
  std::uint32_t taken = 0;   // object whose number a run has
  for (std::size_t begin = 0, end = 0; begin < leaves.size(); begin = end) {
    const std::uint32_t object = object_at(begin);
    while (end < leaves.size() && key(leaves[begin]) == key(leaves[end])) ++end;
    const bool is_whole = object != before && (end == leaves.size() || object_at(end) != object);
    before = object;
    if (is_whole) continue;
    std::uint32_t number = 0;
    if (end - begin > 1) number = std::exchange(taken, object) == object ? ++last : object;
    for (std::size_t leaf = begin; leaf < end; ++leaf) set_object(leaves[leaf], number, graph);
  }
}

}  // namespace tenplex
