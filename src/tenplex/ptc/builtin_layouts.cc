// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table itself is generated from layouts/*.yaml by embed_yaml.cmake.
#include "tenplex/ptc/builtin_layouts.h"

#include <fmt/format.h>

namespace tenplex {

Result<Layout> builtin_layout(std::string_view name) {
  const BuiltinYaml* found = find_builtin(builtin_layouts(), name);
  if (found != nullptr) return parse_layout(found->text, name);
  return not_found(fmt::format("no built-in layout '{}'; there are: {}", name, list_names(builtin_layouts())));
}

}  // namespace tenplex
