// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// From --map and --sizes to a checkpoint under the names of a map's other side.
//
//   numbers of heads and the like     --sizes heads=32; else the config.json among the checkpoint's files or beside it;
//                                     else the map's default
//
// Value types.
#pragma once

#include <memory>
#include <string>

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

/// The checkpoint at `path`, which `reader` reads, under the other side's names. Errors: as load_map(), map_sizes(),
/// map_tensors() and map_checkpoint(); corrupt for a config.json that is none.
Result<std::unique_ptr<CheckpointReader>> under_other_names(FileSystem& files, const std::string& path,
                                                            std::unique_ptr<CheckpointReader> reader,
                                                            const MapChoice& choice);

}  // namespace tenplex::cli
