// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table itself is generated from maps/*.yaml by embed_yaml.cmake.
#include "tenplex/ptc/builtin_maps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tenplex {

Result<NamingMap> builtin_map(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltinMap& map : builtin_maps()) {
    if (map.name == name) return parse_naming_map(map.text, name);
    names.push_back(map.name);
  }
  return not_found(fmt::format("no built-in map '{}'; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace tenplex
