// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/naming_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "tenplex/ptc/dims.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxRules = 4096;
constexpr std::size_t kMaxParts = 64;

bool has(std::span<const std::string> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Reads the YAML of a map. One reader per call.
class MapReader {
 public:
  explicit MapReader(std::string_view name) : yaml_("map '" + std::string(name) + "'") {}

  Result<MapRules> read(std::string_view text) {
    constexpr std::array<std::string_view, 4> kSections = {"map", "sides", "sizes", "tensors"};
    TENPLEX_ASSIGN_OR_RETURN(const YamlNode root, yaml_.parse(text));
    TENPLEX_TRY(yaml_.check_keys(root, "a map", kSections));
    if (const YamlNode* family = root.find("map")) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.family, yaml_.text(*family, "'map'"));
    }
    const YamlNode* sides = root.find("sides");
    if (sides == nullptr) return yaml_.error(root, "expected a key 'sides'");
    TENPLEX_TRY(read_side_names(*sides));
    if (const YamlNode* sizes = root.find("sizes")) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.sizes, read_size_rules(yaml_, *sizes, 1));
    }
    const YamlNode* tensors = root.find("tensors");
    if (tensors == nullptr) return yaml_.error(root, "expected a key 'tensors'");
    TENPLEX_TRY(yaml_.check_sequence(*tensors, "'tensors'"));
    if (tensors->items.size() > kMaxRules) return yaml_.error(*tensors, fmt::format("more than {} rules", kMaxRules));
    for (const YamlNode& item : tensors->items) {
      TENPLEX_ASSIGN_OR_RETURN(MapRule rule, read_rule(item));
      rules_.tensors.push_back(std::move(rule));
    }
    return std::move(rules_);
  }

 private:
  Result<void> read_side_names(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kSequence || node.items.size() != 2)
      return yaml_.error(node, "'sides' must be a list of two names");
    for (std::size_t side = 0; side < 2; ++side) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.sides[side], yaml_.word(node.items[side], "a side"));
      if (rules_.sides[side] == "dim" || rules_.sides[side] == "widths")
        return yaml_.error(node, fmt::format("a side cannot be called '{}'", rules_.sides[side]));
    }
    if (rules_.sides[0] == rules_.sides[1]) return yaml_.error(node, "the two sides have the same name");
    return {};
  }

  /// A number, or the name of a size that was read before.
  Result<Size> read_size(const YamlNode& node, std::string_view what) {
    return read_known_size(yaml_, node, what, 1, rules_.sizes);
  }

  Result<std::vector<std::string>> read_words(const YamlNode& node, std::string_view what) {
    std::vector<std::string> words;
    for (const YamlNode& item : items_of(node)) {
      TENPLEX_ASSIGN_OR_RETURN(std::string word, yaml_.word(item, what));
      if (has(words, word)) return yaml_.error(item, fmt::format("'{}' occurs twice", word));
      words.push_back(std::move(word));
    }
    if (words.empty() || words.size() > kMaxParts) return yaml_.error(node, fmt::format("expected {}", what));
    return words;
  }

  /// The items of a list, or the node itself.
  static std::span<const YamlNode> items_of(const YamlNode& node) {
    return node.kind == YamlNode::Kind::kSequence ? std::span(node.items) : std::span(&node, 1);
  }

  Result<MapRule> read_rule(const YamlNode& node) {
    const std::array<std::string_view, 4> keys = {rules_.sides[0], rules_.sides[1], "dim", "widths"};
    TENPLEX_TRY(yaml_.check_keys(node, "a rule", keys));
    MapRule rule;
    rule.line = node.line;
    if (const YamlNode* dim = node.find("dim")) {
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(*dim, "'dim'", 0, kMaxRank - 1));
      rule.dim = static_cast<int>(value);
    }
    if (const YamlNode* widths = node.find("widths")) {
      TENPLEX_TRY(yaml_.check_sequence(*widths, "'widths'"));
      if (widths->items.empty() || widths->items.size() > kMaxParts)
        return yaml_.error(*widths, fmt::format("'widths' must be 1 to {} numbers or sizes", kMaxParts));
      for (const YamlNode& item : widths->items) {
        TENPLEX_ASSIGN_OR_RETURN(Size width, read_size(item, "a width"));
        rule.widths.push_back(std::move(width));
      }
    }
    for (std::size_t side = 0; side < 2; ++side) {
      const YamlNode* found = node.find(rules_.sides[side]);
      if (found == nullptr) return yaml_.error(node, fmt::format("a rule needs '{}'", rules_.sides[side]));
      TENPLEX_ASSIGN_OR_RETURN(rule.sides[side], read_side(*found));
    }
    TENPLEX_TRY(check_parts(rule));
    TENPLEX_TRY(check_words(&rule));
    return rule;
  }

  Result<MapSide> read_side(const YamlNode& node) {
    constexpr std::array<std::string_view, 4> kKeys = {"name", "blocks", "transpose", "stack"};
    MapSide side;
    side.line = node.line;
    if (node.kind != YamlNode::Kind::kMap) {
      TENPLEX_ASSIGN_OR_RETURN(side.names, read_names(node));
      return side;
    }
    TENPLEX_TRY(yaml_.check_keys(node, "a side", kKeys));
    const YamlNode* name = node.find("name");
    if (name == nullptr) return yaml_.error(node, "a side needs 'name'");
    TENPLEX_ASSIGN_OR_RETURN(side.names, read_names(*name));
    if (const YamlNode* blocks = node.find("blocks")) {
      TENPLEX_ASSIGN_OR_RETURN(side.blocks, read_size(*blocks, "'blocks'"));
    }
    if (const YamlNode* transpose = node.find("transpose")) {
      TENPLEX_ASSIGN_OR_RETURN(side.transpose, yaml_.boolean(*transpose, "'transpose'"));
    }
    if (const YamlNode* stack = node.find("stack")) {
      TENPLEX_ASSIGN_OR_RETURN(side.stack, read_words(*stack, "a word to stack by"));
    }
    return side;
  }

  Result<std::vector<NamePattern>> read_names(const YamlNode& node) {
    std::vector<NamePattern> names;
    for (const YamlNode& item : items_of(node)) {
      TENPLEX_ASSIGN_OR_RETURN(const std::string text, yaml_.text(item, "a name"));
      auto pattern = NamePattern::parse(text);
      if (!pattern) return yaml_.error(item, pattern.error().message());
      if (!pattern->captures_only_numbers())
        return yaml_.error(item, fmt::format("name '{}' may hold numbers like {{layer}}, no text of any kind", text));
      names.push_back(*std::move(pattern));
    }
    if (names.empty() || names.size() > kMaxParts)
      return yaml_.error(node, fmt::format("expected 1 to {} names", kMaxParts));
    return names;
  }

  Result<void> check_parts(const MapRule& rule) const {
    const Size one{1, {}};
    const std::size_t parts = rule.parts();
    for (const MapSide& side : rule.sides) {
      if (side.names.size() != 1 && side.names.size() != parts)
        return yaml_.error(side.line, fmt::format("{} names for {} parts", side.names.size(), parts));
      if (side.names.size() != 1 && side.blocks != one)
        return yaml_.error(side.line, "'blocks' is for one tensor that holds all parts");
    }
    const bool joined = parts > 1 && (rule.sides[0].names.size() == 1 || rule.sides[1].names.size() == 1);
    if (joined && rule.widths.size() != parts)
      return yaml_.error(rule.line, fmt::format("'widths' must have {} numbers or sizes, one per part", parts));
    if (!joined && (!rule.widths.empty() || rule.sides[0].blocks != one || rule.sides[1].blocks != one))
      return yaml_.error(rule.line, "'widths' and 'blocks' are for rules that join parts");
    return {};
  }

  Result<void> check_words(MapRule* rule) const {
    std::array<std::vector<std::string>, 2> words;
    for (std::size_t index = 0; index < 2; ++index) {
      const MapSide& side = rule->sides[index];
      words[index] = side.names.front().words();
      std::sort(words[index].begin(), words[index].end());
      for (const NamePattern& name : side.names) {
        auto others = name.words();
        std::sort(others.begin(), others.end());
        if (others != words[index])
          return yaml_.error(side.line, fmt::format("'{}' and '{}' must have the same words in braces",
                                                    side.names.front().text(), name.text()));
      }
      for (const std::string& word : side.stack) {
        if (has(words[index], word))
          return yaml_.error(side.line, fmt::format("'{}' is in the name and under 'stack'", word));
      }
      words[index].insert(words[index].end(), side.stack.begin(), side.stack.end());
      std::sort(words[index].begin(), words[index].end());
    }
    if (words[0] != words[1])
      return yaml_.error(rule->line,
                         fmt::format("the sides must have the same words, in names or under 'stack': [{}] and [{}]",
                                     fmt::join(words[0], ", "), fmt::join(words[1], ", ")));
    rule->words = std::move(words[0]);
    return {};
  }

  YamlReader yaml_;
  MapRules rules_;
};

}  // namespace

std::string NamingMap::where(int line) const { return fmt::format("map '{}' line {}", name_, line); }

Result<NamingMap> parse_naming_map(std::string_view yaml, std::string_view name) {
  NamingMap map;
  map.name_ = name;
  map.text_ = yaml;
  TENPLEX_ASSIGN_OR_RETURN(map.rules_, MapReader(name).read(yaml));
  return map;
}

}  // namespace tenplex
