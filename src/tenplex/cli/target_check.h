// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What must hold before --overwrite may replace something: it is a checkpoint and nothing else, and the source is not
// part of it.
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

}  // namespace tenplex::cli
