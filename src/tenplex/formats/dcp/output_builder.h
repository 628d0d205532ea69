// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which leaf, chunk and object goes into which data file.
//
//   one file per device, `__R_0.distcp`; in it first the objects, then chunks in the order of the leaves
//   a shard that several devices hold is written once, by the one with the fewest bytes so far (the lowest such rank)
//   every piece of a shard is one chunk; a tensor without elements has one empty chunk
//
// Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/dcp/folder_contents.h"
#include "tenplex/formats/dcp/item_layout.h"
#include "tenplex/formats/dcp/output_items.h"

namespace tenplex::dcp {

/// A data file in the order of its bytes.
struct FileOrder {
  std::string path;
  std::vector<std::uint32_t> items;  ///< in OutputItems::items
};

struct Output {
  OutputItems items;
  std::vector<FileOrder> files;             ///< those of items.files, then that of an object of its own
  std::vector<std::uint32_t> leaf_of_item;  ///< the first leaf that has it
  std::vector<NodeId> nodes;                ///< one per leaf: what a byte item holds; kNoNode for tensors
  std::vector<TensorId> stored_as;          ///< as OutputPlan::stored_as
};

/// Lays out all items with their offsets and lengths.
/// Errors: unsupported naming the leaf that DCP cannot hold; invalid_argument if the target's shards of a tensor
/// overlap or leave something out.
/// `contents` is what to store if it has a graph; else the source's state is.
Result<Output> build_output(const WriteRequest& request, const ItemLayouts& layouts, const FolderContents& contents);

}  // namespace tenplex::dcp
