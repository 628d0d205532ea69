// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The layouts of the folder layouts/, compiled into the program. Threads: safe together.
#pragma once

#include <span>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/ptc/builtin_yaml.h"
#include "tenplex/ptc/layout.h"

namespace tenplex {

/// In alphabetic order.
std::span<const BuiltinYaml> builtin_layouts();

/// The built-in layout of that name. Errors: not_found, listing the names.
Result<Layout> builtin_layout(std::string_view name);

}  // namespace tenplex
