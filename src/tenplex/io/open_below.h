// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Opens a file below a folder; no component and no symbolic link on the way may leave the folder.
//
// Linux >= 5.6 checks it (openat2 with RESOLVE_BENEATH). Elsewhere the path is walked component by component from the
// folder's descriptor, links are expanded by hand, and ".." never climbs above the start.
#pragma once

#include <string>

#include "tenplex/base/result.h"
#include "tenplex/io/file_descriptor.h"

namespace tenplex {

/// For reading. Errors: not_found, io; invalid_argument if the path leaves the folder.
Result<FileDescriptor> open_descriptor_below(const std::string& folder, const std::string& relative);

/// The portable walk alone; tests hold it against openat2.
Result<FileDescriptor> walk_descriptor_below(const std::string& folder, const std::string& relative);

}  // namespace tenplex
