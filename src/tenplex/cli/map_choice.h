// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// From --map to a checkpoint under the names of a map's other side. Value types.
#pragma once

#include <memory>
#include <string>

#include "tenplex/cli/checkpoint_sizes.h"
#include "tenplex/cli/command.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/naming_map.h"

namespace tenplex::cli {

struct MapChoice {
  std::string map;    ///< name or path; empty: none
  std::string sizes;  ///< "heads=32,groups=8"
};

/// Adds --map and --sizes.
void add_map_options(CLI::App& command, MapChoice& choice);

/// A map by the name of a built-in one, or from a file. Errors: not_found lists the built-in ones; out_of_range.
Result<NamingMap> load_map(FileSystem& files, const std::string& name_or_path);

/// The checkpoint at `path`, which `reader` reads, under the other side's names. `given` are the numbers of --sizes for
/// the map. Errors: as map_sizes(), map_tensors() and map_checkpoint().
Result<std::unique_ptr<CheckpointReader>> under_other_names(const std::string& path,
                                                            std::unique_ptr<CheckpointReader> reader,
                                                            const NamingMap& map, const NamedSizes& given,
                                                            const SizeSource& numbers);

}  // namespace tenplex::cli
