// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/naming_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "tenplex/ptc/dims.h"
#include "tenplex/ptc/map_rule_checks.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxParts = 64;
constexpr std::size_t kMaxAgreements = 64;

/// Keys beside those of the sides.
constexpr std::array<std::string_view, 6> kNoSides = {"dim", "widths", "drop", "partial", "dims", "times"};

bool has(std::span<const std::string> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Reads the YAML of a map. One reader per call.
class MapReader {
 public:
  explicit MapReader(std::string_view name) : yaml_("map '" + std::string(name) + "'") {}

  Result<MapRules> read(std::string_view text) {
    constexpr std::array<std::string_view, 5> kSections = {"map", "sides", "sizes", "tensors", "agree"};
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
    if (const YamlNode* agree = root.find("agree")) TENPLEX_TRY(read_agreements(*agree));
    return std::move(rules_);
  }

 private:
  Result<void> read_side_names(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kSequence || node.items.size() != 2)
      return yaml_.error(node, "'sides' must be a list of two names");
    for (std::size_t side = 0; side < 2; ++side) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.sides[side], yaml_.word(node.items[side], "a side"));
      if (std::find(kNoSides.begin(), kNoSides.end(), rules_.sides[side]) != kNoSides.end())
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
    const std::array<std::string_view, 6> keys = {rules_.sides[0], rules_.sides[1], "dim", "widths", "drop", "partial"};
    TENPLEX_TRY(yaml_.check_keys(node, "a rule", keys));
    if (const YamlNode* drop = node.find("drop")) {
      TENPLEX_ASSIGN_OR_RETURN(const bool drops, yaml_.boolean(*drop, "'drop'"));
      if (drops) return read_drop(node);
    }
    MapRule rule;
    rule.line = node.line;
    TENPLEX_TRY(read_widths(node, &rule));
    for (std::size_t side = 0; side < 2; ++side) {
      const YamlNode* found = node.find(rules_.sides[side]);
      if (found == nullptr) return yaml_.error(node, fmt::format("a rule needs '{}'", rules_.sides[side]));
      TENPLEX_ASSIGN_OR_RETURN(rule.sides[side], read_side(*found));
    }
    if (const YamlNode* partial = node.find("partial")) {
      TENPLEX_ASSIGN_OR_RETURN(rule.partial, read_words(*partial, "a word of the rule"));
    }
    TENPLEX_TRY(check_parts(yaml_, rule));
    TENPLEX_TRY(check_words(yaml_, &rule));
    for (const std::string& word : rule.partial)
      if (!has(rule.words, word))
        return yaml_.error(rule.line, fmt::format("'partial' names '{}', which is no word of the rule", word));
    return rule;
  }

  Result<void> read_widths(const YamlNode& node, MapRule* rule) {
    if (const YamlNode* dim = node.find("dim")) {
      TENPLEX_ASSIGN_OR_RETURN(rule->dim, read_dim(*dim, "'dim'"));
    }
    const YamlNode* widths = node.find("widths");
    if (widths == nullptr) return {};
    TENPLEX_TRY(yaml_.check_sequence(*widths, "'widths'"));
    if (widths->items.empty() || widths->items.size() > kMaxParts)
      return yaml_.error(*widths, fmt::format("'widths' must be 1 to {} numbers or sizes", kMaxParts));
    for (const YamlNode& item : widths->items) {
      TENPLEX_ASSIGN_OR_RETURN(Size width, read_size(item, "a width"));
      rule->widths.push_back(std::move(width));
    }
    return {};
  }

  Result<int> read_dim(const YamlNode& node, std::string_view what) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(node, what, 0, kMaxRank - 1));
    return static_cast<int>(value);
  }

  /// {hf: NAMES, drop: true}
  Result<MapRule> read_drop(const YamlNode& node) {
    MapRule rule;
    rule.line = node.line;
    rule.drop = true;
    if (node.entries.size() != 2)
      return yaml_.error(node, "a rule with 'drop: true' has the names of one side and no other keys");
    for (std::size_t side = 0; side < 2; ++side) {
      const YamlNode* found = node.find(rules_.sides[side]);
      if (found == nullptr) continue;
      if (found->kind == YamlNode::Kind::kMap) return yaml_.error(*found, "expected a name or a list of names");
      rule.sides[side].line = found->line;
      TENPLEX_ASSIGN_OR_RETURN(rule.sides[side].names, read_names(*found));
      rule.words = rule.sides[side].names.front().words();
      return rule;
    }
    return yaml_.error(node, fmt::format("a rule needs '{}' or '{}'", rules_.sides[0], rules_.sides[1]));
  }

  Result<void> read_agreements(const YamlNode& node) {
    TENPLEX_TRY(yaml_.check_sequence(node, "'agree'"));
    if (node.items.size() > kMaxAgreements)
      return yaml_.error(node, fmt::format("more than {} pairs that agree", kMaxAgreements));
    for (const YamlNode& item : node.items) {
      TENPLEX_ASSIGN_OR_RETURN(MapAgreement agreement, read_agreement(item));
      rules_.agreements.push_back(std::move(agreement));
    }
    return {};
  }

  /// {hf: [A, B], dims: [0, 1], times: heads}
  Result<MapAgreement> read_agreement(const YamlNode& node) {
    const std::array<std::string_view, 4> keys = {rules_.sides[0], rules_.sides[1], "dims", "times"};
    TENPLEX_TRY(yaml_.check_keys(node, "a pair that agrees", keys));
    MapAgreement made;
    made.line = node.line;
    const YamlNode* names = node.find(rules_.sides[0]);
    if (names == nullptr) {
      names = node.find(rules_.sides[1]);
      made.side = 1;
    }
    const YamlNode* dims = node.find("dims");
    if (names == nullptr || (made.side == 0 && node.find(rules_.sides[1]) != nullptr) || dims == nullptr)
      return yaml_.error(node, "a pair that agrees needs the names of one side, and 'dims'");
    TENPLEX_ASSIGN_OR_RETURN(made.names, read_names(*names));
    if (made.names.size() != 2) return yaml_.error(*names, "expected two names");
    TENPLEX_TRY(check_same_words(yaml_, made.names, names->line));
    TENPLEX_TRY(yaml_.check_sequence(*dims, "'dims'"));
    if (dims->items.size() != 2) return yaml_.error(*dims, "'dims' must be two dimensions");
    for (std::size_t at = 0; at < 2; ++at) {
      TENPLEX_ASSIGN_OR_RETURN(made.dims[at], read_dim(dims->items[at], "a dimension"));
    }
    if (const YamlNode* times = node.find("times")) {
      TENPLEX_ASSIGN_OR_RETURN(made.times, read_size(*times, "'times'"));
    }
    return made;
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
      for (const NamePattern& other : names)
        if (other.text() == text) return yaml_.error(item, fmt::format("'{}' occurs twice", text));
      names.push_back(*std::move(pattern));
    }
    if (names.empty() || names.size() > kMaxParts)
      return yaml_.error(node, fmt::format("expected 1 to {} names", kMaxParts));
    return names;
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
