// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table itself is generated from layouts/*.yaml by embed_yaml.cmake.
#include "tenplex/ptc/builtin_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tenplex {

Result<Layout> builtin_layout(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltinLayout& layout : builtin_layouts()) {
    if (layout.name == name) return parse_layout(layout.text, name);
    names.push_back(layout.name);
  }
  return not_found(fmt::format("no built-in layout '{}'; there are: {}", name, fmt::join(names, ", ")));
}

}  // namespace tenplex
