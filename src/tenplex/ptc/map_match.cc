// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "tenplex/ptc/name_index.h"

namespace tenplex {
namespace {

Error no_rule(const NamingMap& map, const TensorInfo& tensor, std::size_t from, bool fits_other) {
  const auto& sides = map.rules().sides;
  return invalid_argument(fmt::format("tensor '{}' of shape {}: no rule of map '{}' has this name for '{}' ({})",
                                      tensor.name, to_string(tensor.shape), map.name(), sides[from],
                                      fits_other ? fmt::format("one has it for '{}'", sides[1 - from])
                                                 : fmt::format("to read it as '{}'", sides[1 - from])));
}

/// The numbers seen under every word of the names.
class Numbers {
 public:
  void add(const MapRule& rule, const WordValues& values) {
    for (std::size_t word = 0; word < values.size(); ++word)
      if (values[word] != kOpen) seen_[rule.words[word]].push_back(values[word]);
  }

  Result<void> check(const NamingMap& map) {
    for (auto& [word, numbers] : seen_) {
      std::sort(numbers.begin(), numbers.end());
      numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
      if (numbers.back() + 1 == static_cast<std::int64_t>(numbers.size())) continue;
      std::int64_t missing = 0;
      while (numbers[static_cast<std::size_t>(missing)] == missing) ++missing;
      return invalid_argument(fmt::format("no tensor has {} {}, but one has {} {}: map '{}' is for whole models", word,
                                          missing, word, numbers.back(), map.name()));
    }
    return {};
  }

 private:
  std::map<std::string_view, std::vector<std::int64_t>> seen_;
};

/// What members of one group have in common: the slot, the rule, and the numbers of words that are in the names of both
/// sides.
using GroupKey = std::pair<SlotFrame, std::vector<std::int64_t>>;

GroupKey key_of(const MapRules& rules, const MapPlace& found, std::size_t from) {
  GroupKey key{found.frame, {static_cast<std::int64_t>(found.rule)}};
  const MapRule& rule = rules.tensors[found.rule];
  const auto& stacked = rule.sides[1 - from].stack;
  for (std::size_t word = 0; word < rule.words.size(); ++word)
    key.second.push_back(
        std::find(stacked.begin(), stacked.end(), rule.words[word]) != stacked.end() ? kOpen : found.values[word]);
  return key;
}

/// Where every tensor has its place on each side.
using Places = std::array<std::vector<std::optional<MapPlace>>, 2>;

Result<std::size_t> side_of(const NamingMap& map, std::span<const TensorInfo> tensors, const Places& places) {
  std::array<std::size_t, 2> matched{};
  for (std::size_t side = 0; side < 2; ++side)
    for (const auto& place : places[side]) matched[side] += place ? 1U : 0U;
  if (matched[0] != matched[1]) return matched[0] > matched[1] ? std::size_t{0} : std::size_t{1};
  const auto& sides = map.rules().sides;
  if (matched[0] > 0)
    return invalid_argument(fmt::format("the tensors may be named for '{}' or for '{}': map '{}' cannot tell which",
                                        sides[0], sides[1], map.name()));
  return invalid_argument(fmt::format("map '{}' has names for '{}' and '{}', and none of them is a tensor's{}",
                                      map.name(), sides[0], sides[1],
                                      tensors.empty() ? "" : fmt::format(" (as '{}')", tensors.front().name)));
}

}  // namespace

Result<MapGroups> group_tensors(const NamingMap& map, std::span<const TensorInfo> tensors,
                                const std::vector<bool>& kept) {
  const auto is_kept = [&](std::size_t tensor) { return tensor < kept.size() && kept[tensor]; };
  const MapIndex index(map.rules());
  Places places;
  for (std::size_t side = 0; side < 2; ++side) {
    places[side].resize(tensors.size());
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
      if (!is_kept(tensor)) places[side][tensor] = index.find(tensors[tensor].name, side);
  }
  MapGroups result;
  TENPLEX_ASSIGN_OR_RETURN(result.from, side_of(map, tensors, places));
  if (const auto repeated = NameIndex(tensors).repeated())
    return invalid_argument(fmt::format("two tensors are called '{}'", tensors[repeated->index()].name));
  std::map<GroupKey, std::size_t> known;
  Numbers numbers;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (is_kept(tensor)) continue;
    const auto& found = places[result.from][tensor];
    if (!found) return no_rule(map, tensors[tensor], result.from, places[1 - result.from][tensor].has_value());
    const MapRule& rule = map.rules().tensors[found->rule];
    if (rule.drop) {
      result.dropped.emplace_back(tensor);
      continue;
    }
    numbers.add(rule, found->values);
    const auto [entry, is_new] = known.emplace(key_of(map.rules(), *found, result.from), result.groups.size());
    if (is_new) result.groups.push_back({&rule, found->frame, {}});
    result.groups[entry->second].members.push_back({TensorId(tensor), found->part, found->values});
  }
  TENPLEX_TRY(numbers.check(map));
  return result;
}

}  // namespace tenplex
