// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_rule_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tenplex {
namespace {

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

Result<void> check_parts(const YamlReader& yaml, const MapRule& rule) {
  const Size one{1, {}};
  const std::size_t parts = rule.parts();
  for (const MapSide& side : rule.sides) {
    if (side.names.size() != 1 && side.names.size() != parts)
      return yaml.error(side.line, fmt::format("{} names for {} parts", side.names.size(), parts));
    if (side.names.size() != 1 && side.blocks != one)
      return yaml.error(side.line, "'blocks' is for one tensor that holds all parts");
  }
  const bool joined = parts > 1 && (rule.sides[0].names.size() == 1 || rule.sides[1].names.size() == 1);
  if (joined && rule.widths.size() != parts)
    return yaml.error(rule.line, fmt::format("'widths' must have {} numbers or sizes, one per part", parts));
  if (!joined && (!rule.widths.empty() || rule.sides[0].blocks != one || rule.sides[1].blocks != one))
    return yaml.error(rule.line, "'widths' and 'blocks' are for rules that join parts");
  return {};
}

Result<void> check_same_words(const YamlReader& yaml, std::span<const NamePattern> names, int line) {
  const auto sorted_words = [](const NamePattern& name) {
    std::vector<std::string> words = name.words();
    std::sort(words.begin(), words.end());
    return words;
  };
  for (const NamePattern& name : names)
    if (sorted_words(name) != sorted_words(names.front()))
      return yaml.error(
          line, fmt::format("'{}' and '{}' must have the same words in braces", names.front().text(), name.text()));
  return {};
}

Result<void> check_words(const YamlReader& yaml, MapRule* rule) {
  std::array<std::vector<std::string>, 2> words;
  for (std::size_t index = 0; index < 2; ++index) {
    const MapSide& side = rule->sides[index];
    TENPLEX_TRY(check_same_words(yaml, side.names, side.line));
    words[index] = side.names.front().words();
    for (const std::string& word : side.stack) {
      if (has(words[index], word))
        return yaml.error(side.line, fmt::format("'{}' is in the name and under 'stack'", word));
    }
    words[index].insert(words[index].end(), side.stack.begin(), side.stack.end());
    std::sort(words[index].begin(), words[index].end());
  }
  if (words[0] != words[1])
    return yaml.error(rule->line,
                      fmt::format("the sides must have the same words, in names or under 'stack': [{}] and [{}]",
                                  fmt::join(words[0], ", "), fmt::join(words[1], ", ")));
  rule->words = std::move(words[0]);
  return {};
}

}  // namespace tenplex
