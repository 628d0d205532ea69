// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

constexpr std::array<std::string_view, 3> kWords = {"chunk", "balanced", "even"};

Result<void> check_widths(const Split& split, std::int64_t extent, std::int64_t parts) {
  if (static_cast<std::int64_t>(split.widths.size()) != parts)
    return invalid_argument(fmt::format("expected {} widths, one per part, found {}", parts, split.widths.size()));
  std::optional<std::int64_t> sum = 0;
  for (const std::int64_t width : split.widths) {
    if (width < 0) return invalid_argument(fmt::format("width {} is negative", width));
    sum = checked_add(*sum, width);
    if (!sum) return invalid_argument("the sum of the widths exceeds 2^63");
  }
  if (*sum != extent)
    return invalid_argument(
        fmt::format("widths [{}] add up to {}, expected {}", fmt::join(split.widths, ", "), *sum, extent));
  return {};
}

}  // namespace

std::optional<Split::Kind> parse_split(std::string_view word) {
  for (std::size_t index = 0; index < kWords.size(); ++index)
    if (kWords[index] == word) return static_cast<Split::Kind>(index);
  return std::nullopt;
}

Result<void> check_split(const Split& split, std::int64_t extent, std::int64_t parts) {
  if (split.kind == Split::Kind::kWidths) return check_widths(split, extent, parts);
  if (split.kind == Split::Kind::kEven && extent % parts != 0)
    return invalid_argument(fmt::format("{} does not divide evenly into {} parts", extent, parts));
  return {};
}

Range part_range(const Split& split, std::int64_t extent, std::int64_t parts, std::int64_t part) {
  if (split.kind == Split::Kind::kWidths) {
    std::int64_t begin = 0;
    for (std::int64_t before = 0; before < part; ++before) begin += split.widths[static_cast<std::size_t>(before)];
    return {begin, split.widths[static_cast<std::size_t>(part)]};
  }
  if (split.kind == Split::Kind::kBalanced) {
    const std::int64_t base = extent / parts;
    const std::int64_t longer = extent % parts;
    return {part * base + std::min(part, longer), base + (part < longer ? 1 : 0)};
  }
  const std::int64_t length = ceil_div(extent, parts);
  if (length == 0 || part >= ceil_div(extent, length)) return {extent, 0};
  return {part * length, std::min(length, extent - part * length)};
}

std::int64_t part_of(const Split& split, std::int64_t extent, std::int64_t parts, std::int64_t index) {
  if (split.kind == Split::Kind::kWidths) {
    std::int64_t part = 0;
    for (std::int64_t end = split.widths[0]; index >= end; end += split.widths[static_cast<std::size_t>(part)]) ++part;
    return part;
  }
  if (split.kind == Split::Kind::kBalanced) {
    const std::int64_t base = extent / parts;
    const std::int64_t longer = extent % parts;
    const std::int64_t boundary = longer * (base + 1);
    return index < boundary ? index / (base + 1) : longer + (index - boundary) / base;
  }
  return index / ceil_div(extent, parts);
}

bool is_even(const Split& split, std::int64_t extent, std::int64_t parts) {
  if (split.kind == Split::Kind::kWidths)
    return std::adjacent_find(split.widths.begin(), split.widths.end(), std::not_equal_to<>()) == split.widths.end();
  return extent % parts == 0;
}

}  // namespace tenplex
