// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What must hold before a target is written. Before --overwrite may replace something: it is a checkpoint and nothing
// else, and the source is not part of it.
#pragma once

#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::cli {

/// Errors: already_exists if something is there and `overwrite` is false; invalid_argument if it is no checkpoint, or
/// if source and target are the same or lie in each other.
Result<void> check_target(FileSystem& files, const std::string& source, const std::string& target, bool overwrite);

/// Opens what `target` holds, if anything, and refuses to lose more than a checkpoint. Files that `rewritten` lists are
/// written again and so not lost. Requires: check_target() let it pass. Errors: invalid_argument if the target cannot
/// be opened as a checkpoint, or if its folder holds files that are no part of it (names the first and counts them).
Result<void> check_replaced(FileSystem& files, const std::string& target, const std::vector<ExtraFile>& rewritten,
                            const ReadOptions& reading);

/// For --overwrite: no file that the source leads to, by a link, lies in the target. Errors: invalid_argument; io.
Result<void> check_source_stays(const CheckpointReader& source, const std::string& source_path,
                                const std::string& target);

/// `target` of format `format` is written to `path`. Errors: invalid_argument if the path ends in ".safetensors", which
/// asks for one file, but the target is a folder: on several devices, or with tensors in pieces.
Result<void> check_target_name(const std::string& path, const Format& format, const Collection& target);

/// `objects_folder` is --objects; empty: not given. Errors: invalid_argument if neither the source, of format
/// `source_format` at `source`, nor the target has a use for it.
Result<void> check_objects_folder(FileSystem& files, const std::string& objects_folder, const std::string& source,
                                  const std::string& source_format, const Format& format, const Collection& target);

}  // namespace tenplex::cli
