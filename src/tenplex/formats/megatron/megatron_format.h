// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Format "megatron-dist": a checkpoint of Megatron-Core's dist_checkpointing (torch_dist), which is a DCP folder with
// flat names, sharded objects, and a dict `common` of all the rest.
//
//   reading  a folder with metadata.json, or the one that latest_checkpointed_iteration.txt names
//   writing  as 0.16.1 does, or in the form that the source had; metadata.json last
//
// Specification: docs/formats/megatron-dist.md. Threads: as Format says.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// True also for what an unfinished save leaves, which open_megatron_dist() then explains.
bool detect_megatron_dist(FileSystem& files, const std::string& path);

/// Errors: as open_dcp(); unsupported for other backends and for flattened data of versions before 0.14; corrupt for
/// objects that are missing.
Result<std::unique_ptr<CheckpointReader>> open_megatron_dist(FileSystem& files, const std::string& path,
                                                             const ReadOptions& options);

std::unique_ptr<CheckpointWriter> make_megatron_dist_writer();

/// For the table of formats().
Format megatron_dist_format();

}  // namespace tenplex
