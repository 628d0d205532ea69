// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the built-in layouts, naming maps and models have in common. Threads: safe together.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tenplex/base/result.h"

namespace tenplex {

/// A file of the folder layouts/, maps/ or models/, compiled into the program.
struct BuiltinYaml {
  std::string_view name;         ///< file name without ".yaml"
  std::string_view description;  ///< first line of the file's comment
  std::string_view text;
};

/// "a, b, c".
std::string list_names(std::span<const BuiltinYaml> table);

/// The text of that name, or null.
const BuiltinYaml* find_builtin(std::span<const BuiltinYaml> table, std::string_view name);

}  // namespace tenplex
