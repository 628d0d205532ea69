// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint that a command reads, and how it was cut where it does not say so itself:
//
//   a folder of per-rank .safetensors files, with neither manifest nor index     --from tp=4 --from-layout hf-llama
//   anything else says itself how it is cut, or holds whole tensors              --from is an error, or an assumption
//
// Where the source's layout says how many rows of a tensor are data, anything else is read without its padding, and
// --from then says for which mesh it was padded.
//
// --only leaves out what it does not name, before anything else is done with the rest.
//
// With --map the checkpoint is read under the names of the map's other side; --from-layout has the names that it is
// stored under, a layout for the target those that it is read under.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenplex/cli/command.h"
#include "tenplex/cli/layout_choice.h"
#include "tenplex/cli/map_choice.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex::cli {

struct SourceOptions {
  std::string path;
  LayoutChoice from;  ///< --from-layout, --from
  MapChoice map;      ///< --map, --sizes
  std::string only;   ///< --only, as parse_selection()
  std::string objects_folder;
  bool follow_links = false;
  std::string parameter_order;  ///< --param-order: a file

  bool has_from() const { return !from.sizes.empty() || !from.layout.empty(); }
  /// Without the order of the parameters, which is in a file.
  ReadOptions reading() const;
};

/// Adds --from, --from-layout, --only, --map, --sizes, --param-order, --objects and --follow-links.
void add_reading_options(CLI::App& command, SourceOptions& options);

/// Adds the checkpoint as positional argument `name`, which is returned, and the reading options.
CLI::Option* add_source_options(CLI::App& command, SourceOptions& options, const std::string& name = "source",
                                const std::string& type_name = "SRC");

/// Errors: invalid_argument if --sizes (`text`) names a size that none of these layouts has; "" names no layout.
Result<void> check_size_names(FileSystem& files, const std::vector<std::string>& layouts, const std::string& text);

/// What --from means for a source that says itself how it is cut.
enum class FromMeans : unsigned char {
  kError,
  kAssumption,  ///< the caller takes it from there
};

/// The choice with the numbers of the checkpoint, which `reader` reads, for the layout's sizes. Errors: as
/// checkpoint_sizes().
Result<LayoutChoice> with_numbers(const Context& context, const SourceOptions& options, const CheckpointReader& reader,
                                  LayoutChoice choice);

/// Opens the checkpoint. `layout_if_none` is the source's layout where --from-layout is not given; "" = none.
/// Errors: as open_checkpoint(); invalid_argument if --from is given and the source says how it is cut, unless the
/// layout tells its padding; if it does not fit the per-rank files; as select(), without_padding() and
/// under_other_names().
Result<std::unique_ptr<CheckpointReader>> open_source(const Context& context, const SourceOptions& options,
                                                      FromMeans from_means, const std::string& layout_if_none = "");

}  // namespace tenplex::cli
