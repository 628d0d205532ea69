// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tenplex/ptc/map_tensors.h"

namespace tenplex {
namespace {

std::optional<std::int64_t> value_in(const NamedSizes& sizes, std::string_view name) {
  for (const auto& [known, value] : sizes)
    if (known == name) return value;
  return std::nullopt;
}

std::optional<std::int64_t> value_of(const MapSize& size, const NamedSizes& given, const ConfigNumber& config,
                                     const NamedSizes& before) {
  if (const auto value = value_in(given, size.name)) return value;
  for (const std::string& key : size.config)
    if (const auto value = config(key)) return value;
  if (!size.otherwise) return std::nullopt;
  return size.otherwise->name.empty() ? size.otherwise->value : value_in(before, size.otherwise->name);
}

}  // namespace

Result<NamedSizes> map_sizes(const NamingMap& map, const NamedSizes& given, const ConfigNumber& config) {
  const std::vector<MapSize>& known = map.rules().sizes;
  for (const auto& [name, value] : given) {
    if (std::count_if(given.begin(), given.end(), [&](const auto& other) { return other.first == name; }) > 1)
      return invalid_argument(fmt::format("size '{}' is given twice", name));
    if (std::any_of(known.begin(), known.end(), [&](const MapSize& size) { return size.name == name; })) continue;
    std::vector<std::string_view> names;
    names.reserve(known.size());
    for (const MapSize& size : known) names.push_back(size.name);
    return invalid_argument(names.empty() ? fmt::format("map '{}' has no sizes, found '{}'", map.name(), name)
                                          : fmt::format("map '{}' has no size '{}'; its sizes are: {}", map.name(),
                                                        name, fmt::join(names, ", ")));
  }
  NamedSizes sizes;
  for (const MapSize& size : known) {
    const auto value = value_of(size, given, config, sizes);
    if (!value) continue;
    if (*value < 1)
      return invalid_argument(
          fmt::format("{}: size '{}' must be at least 1, found {}", map.where(size.line), size.name, *value));
    sizes.emplace_back(size.name, *value);
  }
  return sizes;
}

}  // namespace tenplex
