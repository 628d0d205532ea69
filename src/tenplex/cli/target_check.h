// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What must hold before --overwrite may replace something: it is a checkpoint, and the source is not part of it.
#pragma once

#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex::cli {

/// Errors: already_exists if something is there and `overwrite` is false; invalid_argument if it is no checkpoint, or
/// if source and target are the same or lie in each other.
Result<void> check_target(FileSystem& files, const std::string& source, const std::string& target, bool overwrite);

}  // namespace tenplex::cli
