// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Format "dcp": a folder of torch.distributed.checkpoint, one or more data files per rank and `.metadata`.
//
//   reading  both payloads (torch.save, safetensors); nested names become the tree again
//   writing  torch.save payload, one file per device, `.metadata` last; tenplex.json for what DCP cannot hold
//
// Specification: docs/formats/dcp.md. Threads: as Format says.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// True for a folder with `.metadata`, or with what an unfinished save leaves, which open_dcp() then explains.
bool detect_dcp(FileSystem& files, const std::string& path);

/// Errors: corrupt, also for a save that did not finish; unsupported; invalid_argument for a data file outside the
/// folder; io.
Result<std::unique_ptr<CheckpointReader>> open_dcp(FileSystem& files, const std::string& path,
                                                   const ReadOptions& options);

std::unique_ptr<CheckpointWriter> make_dcp_writer();

/// For the table of formats().
Format dcp_format();

}  // namespace tenplex
