// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/builtin_yaml.h"

#include <algorithm>

namespace tenplex {

std::string list_names(std::span<const BuiltinYaml> table) {
  std::string names;
  for (const BuiltinYaml& entry : table) names.append(names.empty() ? "" : ", ").append(entry.name);
  return names;
}

const BuiltinYaml* find_builtin(std::span<const BuiltinYaml> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &BuiltinYaml::name);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace tenplex
