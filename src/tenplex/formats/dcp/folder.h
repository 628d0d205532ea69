// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing a DCP folder for a library on top of DCP: see read_dialect.h and folder_contents.h.
// Threads: as Format says.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/dcp/folder_contents.h"
#include "tenplex/formats/dcp/read_dialect.h"

namespace tenplex::dcp {

/// Errors: as open_dcp(); those of the dialect's check.
Result<std::unique_ptr<CheckpointReader>> open_folder(FileSystem& files, const std::string& path,
                                                      const ReadOptions& options, ReadDialect dialect);

/// Writes `contents` where it has a graph, else the source's state as torch does. `.metadata` is the plan's manifest.
std::unique_ptr<CheckpointWriter> make_folder_writer(FolderContents contents);

}  // namespace tenplex::dcp
