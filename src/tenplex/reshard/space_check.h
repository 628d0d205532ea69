// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether there is room for the files of a target, asked before the first byte is written.
//
// A target that --overwrite replaces stays until the new one is whole, so that its bytes do not count as free. What the
// files take beyond their bytes (whole blocks, names) is not counted, nor is a quota that the file system does not tell
// of: a target that passes may still meet a full disk.
#pragma once

#include <string>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/io/file_system.h"

namespace tenplex {

/// `target` and its folder are as in AtomicTarget, whose partial target is there already; objects that lie in
/// `objects_folder` with their size need no room. Errors: resource_exhausted, with what is needed, what is free and
/// where; io.
Result<void> check_space(FileSystem& files, const OutputPlan& plan, const std::string& target,
                         const std::string& objects_folder);

}  // namespace tenplex
