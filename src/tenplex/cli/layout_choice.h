// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// From --layout, --to and the like to a layout and the collection it makes of a checkpoint's tensors.
//
//   --layout given            that built-in layout, or that file
//   not given                 the layout that the checkpoint says it was cut with; else `fsdp` if --to names only the
//                             axis fsdp; else, with one device, `replicated`
//
// Value types.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tenplex/cli/checkpoint_sizes.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex::cli {

/// A layout by the name of a built-in one, or from a file; with "+zero1", "+zero2" or "+zero3" behind it, ZeRO over it.
/// Its sizes have no other values than defaults. Errors: not_found lists the built-in ones; as Layout::with_zero().
Result<Layout> load_layout(FileSystem& files, const std::string& name_or_path);

/// The layout with numbers for its sizes. Errors: as SizeSource::check(), Layout::with_sizes().
Result<Layout> sized(const Layout& layout, const SizeSource& numbers);

struct LayoutChoice {
  std::string layout;  ///< name or path; empty: see the file comment
  std::string sizes;   ///< "tp=2,pp=2"; empty: one device
  SizeSource numbers;  ///< for the layout's sizes
};

/// The layout that the file comment gives. `option` is what the error tells to use ("--layout").
/// Errors: invalid_argument if there is none; as load_layout().
Result<Layout> choose_layout(FileSystem& files, const CheckpointInfo& info, const LayoutChoice& choice,
                             std::string_view option);

/// A collection and how it says that it was cut.
struct CutCollection {
  std::unique_ptr<Collection> collection;
  LayoutNote note;
  Mesh mesh;  ///< of dense parameters: the layout's first one
};

/// Cuts `tensors` (and gives the checkpoint's objects owners) as chosen. Errors: invalid_argument if no layout is known
/// or it does not fit, not_found.
Result<CutCollection> cut(FileSystem& files, const CheckpointInfo& info, TensorList tensors,
                          const LayoutChoice& choice);

/// "from layout 'hf-llama' (tp=2) to layout 'hf-llama' (tp=4)": what a re-cut that fails was to do. `from` is what the
/// command line says of the source.
std::string recut_text(const CheckpointInfo& info, const LayoutChoice& from, const LayoutChoice& to);

/// The checkpoint's tensors; they are there as long as the list is.
TensorList tensors_of(const std::shared_ptr<const CheckpointReader>& reader);

/// The chunks of a checkpoint as a collection: what each device stored. Objects belong to device 0. Errors: corrupt.
Result<std::unique_ptr<Collection>> collection_of_checkpoint(const CheckpointInfo& info);

/// Names of the state tree's leaves that are no tensors.
Result<std::vector<std::string>> object_names(const CheckpointInfo& info);

}  // namespace tenplex::cli
