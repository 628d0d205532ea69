// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The naming maps of the folder maps/, compiled into the program. Threads: safe together.
#pragma once

#include <span>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/ptc/builtin_yaml.h"
#include "tenplex/ptc/naming_map.h"

namespace tenplex {

/// In alphabetic order.
std::span<const BuiltinYaml> builtin_maps();

/// The built-in map of that name. Errors: not_found, listing the names.
Result<NamingMap> builtin_map(std::string_view name);

}  // namespace tenplex
