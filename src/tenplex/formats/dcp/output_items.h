// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a DCP folder that is being written holds, before any byte of it exists.
//
//   leaf   one name of the state dict: a tensor, or an object that torch.save wrote ("byte item")
//   item   one stored thing in one data file: a chunk of a tensor, or a byte item
//
// A leaf's items are a run. Two leaves that are one tensor (tied weights) share their run, so the bytes are written
// once.
//
// Value types. Threads: as any value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/formats/state/leaf_list.h"
#include "tenplex/ptc/collection.h"

namespace tenplex::dcp {

struct OutputLeaf {
  bool is_tensor = false;
  bool requires_grad = false;
  TensorId tensor;   ///< whose shards are its items
  TensorId name_of;  ///< of a tensor that the tree does not have: whose name is the leaf's
  std::uint32_t first_item = 0;
  std::uint32_t item_count = 0;
};

struct OutputItem {
  static constexpr std::int64_t kWholeEmpty = -1;  ///< as `shard`: the one empty chunk of a tensor without elements

  std::int64_t offset = 0;  ///< in its file
  std::int64_t length = 0;
  std::int64_t shard = 0;  ///< of the leaf's tensor
  std::int32_t piece = 0;
  std::int32_t file = 0;
};

struct OutputItems {
  std::vector<std::string> files;  ///< data files, relative paths
  LeafList tree;                   ///< of the source's state; empty where it has none
  /// Those of the tree, as numbered there, then the named objects, then tensors that the tree does not have.
  std::vector<OutputLeaf> leaves;
  std::vector<std::string> object_names;  ///< of the named objects
  std::size_t listed = 0;                 ///< leaves that .metadata names; one after them is a file of its own
  bool has_paths = true;                  ///< names are ways in a tree; else .metadata has no planner_data
  std::vector<OutputItem> items;
  const Collection* target = nullptr;

  std::string name(std::size_t leaf) const {
    if (leaf < tree.size()) return tree.name(leaf);
    if (!leaves[leaf].is_tensor) return object_names[leaf - tree.size()];
    return target->tensors()[leaves[leaf].name_of.index()].name;
  }

  /// Empty: the name itself is the only step.
  std::vector<PathStep> path(std::size_t leaf) const {
    return leaf < tree.size() ? tree.path(leaf) : std::vector<PathStep>();
  }

  /// The box of a tensor's item. Uses `*scratch`.
  Box box_of(const OutputLeaf& leaf, const OutputItem& item, SubTensor* scratch) const {
    if (item.shard == OutputItem::kWholeEmpty) return Box::whole(target->tensors()[leaf.tensor.index()].shape);
    target->shard(leaf.tensor, item.shard, scratch);
    return scratch->pieces[static_cast<std::size_t>(item.piece)].box;
  }
};

}  // namespace tenplex::dcp
