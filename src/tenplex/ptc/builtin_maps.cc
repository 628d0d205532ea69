// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table itself is generated from maps/*.yaml by embed_yaml.cmake.
#include "tenplex/ptc/builtin_maps.h"

#include <fmt/format.h>

namespace tenplex {

Result<NamingMap> builtin_map(std::string_view name) {
  const BuiltinYaml* found = find_builtin(builtin_maps(), name);
  if (found != nullptr) return parse_naming_map(found->text, name);
  return not_found(fmt::format("no built-in map '{}'; there are: {}", name, list_names(builtin_maps())));
}

}  // namespace tenplex
