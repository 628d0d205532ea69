// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tenplex/ptc/map_tensors.h"

namespace tenplex {
Result<NamedSizes> map_sizes(const NamingMap& map, const NamedSizes& given, const ConfigNumber& config) {
  const std::vector<SizeRule>& known = map.rules().sizes;
  for (const auto& [name, value] : given) {
    if (std::count_if(given.begin(), given.end(), [&](const auto& other) { return other.first == name; }) > 1)
      return invalid_argument(fmt::format("size '{}' is given twice", name));
    if (std::any_of(known.begin(), known.end(), [&](const SizeRule& size) { return size.name == name; })) continue;
    std::vector<std::string_view> names;
    names.reserve(known.size());
    for (const SizeRule& size : known) names.push_back(size.name);
    return invalid_argument(names.empty() ? fmt::format("map '{}' has no sizes, found '{}'", map.name(), name)
                                          : fmt::format("map '{}' has no size '{}'; its sizes are: {}", map.name(),
                                                        name, fmt::join(names, ", ")));
  }
  return resolve_sizes(known, given, config, 1, [&map](int line) { return map.where(line); });
}

}  // namespace tenplex
