// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/plain_tree.h"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <vector>

#include "tenplex/formats/state/flatten.h"

namespace tenplex {
namespace {

/// Tensors that are one view under several names.
void note_ties(const CheckpointInfo& info, const LeafList& leaves, CheckpointInfo* flat) {
  std::map<std::tuple<std::uint32_t, std::int64_t, Dims, Dims, DType>, TensorId> seen;
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const TensorView view = info.state.view(leaves.node(leaf));
    const TensorInfo& tensor = info.tensors[view.tensor.index()];
    const auto [first, is_new] =
        seen.emplace(std::tuple(view.storage, view.offset, view.strides, tensor.shape, tensor.dtype), view.tensor);
    if (!is_new && first->second != view.tensor) flat->aliases.emplace_back(view.tensor, first->second);
  }
}

}  // namespace

Result<void> leave_tree_out(const CheckpointInfo& info, CheckpointInfo* flat) {
  if (info.state.root == kNoNode) return {};
  TENPLEX_ASSIGN_OR_RETURN(const LeafList leaves, flatten(info.state));
  std::vector<bool> seen(info.tensors.size());
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (info.state[leaves.node(leaf)].kind != NodeKind::kTensor)
      return unsupported(fmt::format("object '{}' has no place among tensors with other names", leaves.name(leaf)));
    const std::size_t tensor = info.state.view(leaves.node(leaf)).tensor.index();
    if (seen[tensor])
      return unsupported(fmt::format("'{}' is one object with '{}': it cannot be given another name", leaves.name(leaf),
                                     info.tensors[tensor].name));
    seen[tensor] = true;
  }
  note_ties(info, leaves, flat);
  bool attributes = false;
  bool lists = false;
  for (NodeId node = 0; node < info.state.size(); ++node) {
    attributes |= info.state[node].kind == NodeKind::kObject && info.state.object(node).state != kNoNode;
    lists |= info.state[node].kind == NodeKind::kList;
  }
  if (attributes) flat->problems.emplace_back("attributes of the state dict (_metadata) are left out");
  if (lists) flat->problems.emplace_back("lists of tensors become names");
  return {};
}

}  // namespace tenplex
