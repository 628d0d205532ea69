// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace tenplex {

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 18> kUnits = {{{"", 1},
                                                                           {"B", 1},
                                                                           {"K", 1024.},
                                                                           {"M", 1048576.},
                                                                           {"G", 1073741824.},
                                                                           {"T", 1099511627776.},
                                                                           {"KiB", 1024.},
                                                                           {"MiB", 1048576.},
                                                                           {"GiB", 1073741824.},
                                                                           {"TiB", 1099511627776.},
                                                                           {"kB", 1e3},
                                                                           {"KB", 1e3},
                                                                           {"MB", 1e6},
                                                                           {"GB", 1e9},
                                                                           {"TB", 1e12},
                                                                           {"Ki", 1024.},
                                                                           {"Mi", 1048576.},
                                                                           {"Gi", 1073741824.}}};
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (status == std::errc() && number >= 0) {
    for (const auto& [name, factor] : kUnits) {
      if (unit != name) continue;
      const double bytes = number * factor;
      if (bytes >= 9.2e18) return out_of_range(fmt::format("size '{}' is too large", text));
      return static_cast<std::int64_t>(bytes);
    }
  }
  return invalid_argument(fmt::format("'{}' is not a size: expected a number and a unit such as 256MiB", text));
}

}  // namespace tenplex
