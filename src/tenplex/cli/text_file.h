// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Text files that users write: layouts, naming maps, topologies.
#pragma once

#include <string>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/io/file_system.h"
#include "tenplex/ptc/builtin_yaml.h"

namespace tenplex::cli {

/// The whole file; `what` is "layout" and the like. Errors: not_found, io; out_of_range if it is larger than `limit`.
Result<std::string> read_text_file(FileSystem& files, std::string_view what, const std::string& path,
                                   std::int64_t limit);

/// The text of a built-in one of that name, else of that file. Errors: as read_text_file(), not_found lists the names.
Result<std::string> builtin_or_file(FileSystem& files, std::string_view what, std::span<const BuiltinYaml> builtins,
                                    const std::string& name_or_path, std::int64_t limit);

}  // namespace tenplex::cli
