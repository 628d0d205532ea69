// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The naming maps of the folder maps/, compiled into the program. Threads: safe together.
#pragma once

#include <span>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/ptc/naming_map.h"

namespace tenplex {

struct BuiltinMap {
  std::string_view name;         ///< file name without ".yaml"
  std::string_view description;  ///< first line of the file's comment
  std::string_view text;
};

/// In alphabetic order.
std::span<const BuiltinMap> builtin_maps();

/// The built-in map of that name. Errors: not_found, listing the names.
Result<NamingMap> builtin_map(std::string_view name);

}  // namespace tenplex
