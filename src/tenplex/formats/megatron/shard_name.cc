// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/shard_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace tenplex::megatron {
namespace {

constexpr std::string_view kMark = "/shard_";
constexpr std::size_t kMaxAxes = 16;

/// "0.12" to {0, 12}; nothing for anything else.
std::optional<std::vector<std::int64_t>> numbers(std::string_view text) {
  std::vector<std::int64_t> values;
  while (!text.empty()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto digits = static_cast<std::size_t>(end - text.data());
    const bool plain = text[0] != '-' && (text[0] != '0' || digits == 1);
    if (error != std::errc{} || !plain || values.size() == kMaxAxes) return std::nullopt;
    values.push_back(value);
    text.remove_prefix(digits);
    if (text.empty()) return values;
    if (text[0] != '.' || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  return values;
}

std::string name_of(std::string_view key, const std::vector<std::int64_t>& offset,
                    const std::vector<std::int64_t>& shape) {
  return fmt::format("{}{}{}_{}", key, kMark, fmt::join(offset, "."), fmt::join(shape, "."));
}

/// The place after `*offset` in row-major order; false after the last one.
bool advance(const std::vector<std::int64_t>& shape, std::vector<std::int64_t>* offset) {
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (++(*offset)[axis] < shape[axis]) return true;
    (*offset)[axis] = 0;
  }
  return false;
}

/// `offsets` are sorted. Stops at the first that is missing, so a huge shape costs nothing.
Result<void> check_grid(std::string_view key, const std::vector<std::int64_t>& shape,
                        const std::vector<std::vector<std::int64_t>>& offsets) {
  std::vector<std::int64_t> expected(shape.size(), 0);
  bool more = true;
  for (const std::vector<std::int64_t>& offset : offsets) {
    if (!more) break;
    if (offset != expected) break;
    more = advance(shape, &expected);
  }
  if (!more) return {};
  return corrupt(fmt::format("incomplete: there is no object '{}', but {} of its kind", name_of(key, expected, shape),
                             offsets.size()));
}

}  // namespace

Result<ShardName> parse_shard_name(std::string_view name) {
  const std::size_t mark = name.rfind(kMark);
  const std::string_view place = mark == std::string_view::npos ? "" : name.substr(mark + kMark.size());
  const std::size_t bar = place.find('_');
  const auto offset = bar == std::string_view::npos ? std::nullopt : numbers(place.substr(0, bar));
  const auto shape = bar == std::string_view::npos ? std::nullopt : numbers(place.substr(bar + 1));
  if (!offset || !shape || offset->size() != shape->size())
    return corrupt(fmt::format("object '{}': expected a name like 'key/shard_0.1_2.2'", name));
  for (std::size_t axis = 0; axis < shape->size(); ++axis)
    if ((*offset)[axis] >= (*shape)[axis])
      return corrupt(fmt::format("object '{}': its place lies outside of its grid", name));
  return ShardName{name.substr(0, mark), *offset, *shape};
}

Result<void> check_shard_names(const std::vector<std::string_view>& names) {
  struct Grid {
    std::vector<std::int64_t> shape;
    std::vector<std::vector<std::int64_t>> offsets;
  };
  std::map<std::string_view, Grid> grids;
  for (const std::string_view name : names) {
    TENPLEX_ASSIGN_OR_RETURN(ShardName shard, parse_shard_name(name));
    Grid& grid = grids[shard.key];
    if (grid.offsets.empty()) grid.shape = shard.shape;
    if (grid.shape != shard.shape)
      return corrupt(
          fmt::format("object '{}': others of its key are of a grid of {}", name, fmt::join(grid.shape, " × ")));
    grid.offsets.push_back(std::move(shard.offset));
  }
  for (auto& [key, grid] : grids) {
    std::sort(grid.offsets.begin(), grid.offsets.end());
    TENPLEX_TRY(check_grid(key, grid.shape, grid.offsets));
  }
  return {};
}

}  // namespace tenplex::megatron
