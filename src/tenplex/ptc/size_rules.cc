// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/size_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tenplex {
namespace {

constexpr std::size_t kMaxKeys = 64;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 62;

Result<std::vector<std::string>> read_keys(const YamlReader& yaml, const YamlNode& node) {
  std::vector<std::string> keys;
  const bool is_list = node.kind == YamlNode::Kind::kSequence;
  for (const YamlNode& item : is_list ? std::span(node.items) : std::span(&node, 1)) {
    TENPLEX_ASSIGN_OR_RETURN(std::string key, yaml.word(item, "a key of config.json"));
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      return yaml.error(item, fmt::format("'{}' occurs twice", key));
    keys.push_back(std::move(key));
  }
  if (keys.empty() || keys.size() > kMaxKeys) return yaml.error(node, "expected a key of config.json");
  return keys;
}

/// No key of a configuration starts like this.
bool reads_as_number(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kScalar && !node.text.empty() &&
         std::string_view("0123456789-+").find(node.text.front()) != std::string_view::npos;
}

Result<SizeRule> read_size_rule(const YamlReader& yaml, const YamlNode::Entry& entry, std::int64_t least,
                                std::span<const SizeRule> before) {
  constexpr std::array<std::string_view, 2> kKeys = {"config", "default"};
  SizeRule rule{entry.key, {}, std::nullopt, entry.line};
  const YamlNode& node = entry.value;
  if (reads_as_number(node)) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value,
                             yaml.integer(node, fmt::format("size '{}'", entry.key), least, kMaxSize));
    rule.otherwise = Size{value, {}};
    return rule;
  }
  if (node.kind != YamlNode::Kind::kMap) {
    TENPLEX_ASSIGN_OR_RETURN(rule.config, read_keys(yaml, node));
    return rule;
  }
  TENPLEX_TRY(yaml.check_keys(node, "a size", kKeys));
  if (const YamlNode* config = node.find("config")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.config, read_keys(yaml, *config));
  }
  if (const YamlNode* otherwise = node.find("default")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.otherwise, read_known_size(yaml, *otherwise, "'default'", least, before));
  }
  return rule;
}

/// Sizes with a value. What only the caller says tells nothing of another size that the configuration should give.
struct Resolved {
  NamedSizes sizes;
  std::vector<std::string_view> said_by_caller;

  bool is_said_by_caller(std::string_view name) const {
    return std::find(said_by_caller.begin(), said_by_caller.end(), name) != said_by_caller.end();
  }
};

std::optional<std::int64_t> configured(const SizeRule& rule, const ConfigNumber& config) {
  for (const std::string& key : rule.config)
    if (const auto value = config(key)) return value;
  return std::nullopt;
}

std::optional<std::int64_t> value_of(const SizeRule& rule, const NamedSizes& given, const ConfigNumber& config,
                                     Resolved* before) {
  const auto from_config = configured(rule, config);
  if (const auto value = find_size(given, rule.name)) {
    if (from_config != value) before->said_by_caller.push_back(rule.name);
    return value;
  }
  if (from_config || !rule.otherwise) return from_config;
  const Size& otherwise = *rule.otherwise;
  if (otherwise.name.empty()) return otherwise.value;
  if (before->is_said_by_caller(otherwise.name)) {
    if (!rule.config.empty()) return std::nullopt;
    before->said_by_caller.push_back(rule.name);
  }
  return find_size(before->sizes, otherwise.name);
}

}  // namespace

Result<std::vector<SizeRule>> read_size_rules(const YamlReader& yaml, const YamlNode& node, std::int64_t least) {
  if (node.kind != YamlNode::Kind::kMap || node.entries.size() > kMaxRules)
    return yaml.error(node, fmt::format("'sizes' must be a map of at most {} names", kMaxRules));
  std::vector<SizeRule> rules;
  rules.reserve(node.entries.size());
  for (const YamlNode::Entry& entry : node.entries) {
    TENPLEX_ASSIGN_OR_RETURN(SizeRule rule, read_size_rule(yaml, entry, least, rules));
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<Size> read_known_size(const YamlReader& yaml, const YamlNode& node, std::string_view what, std::int64_t least,
                             std::span<const SizeRule> known) {
  if (YamlReader::is_integer(node)) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml.integer(node, what, least, kMaxSize));
    return Size{value, {}};
  }
  TENPLEX_ASSIGN_OR_RETURN(std::string name, yaml.word(node, what));
  for (const SizeRule& rule : known)
    if (rule.name == name) return Size{0, std::move(name)};
  return yaml.error(node, fmt::format("{} names size '{}', which is not under 'sizes' before", what, name));
}

std::optional<std::int64_t> find_size(const NamedSizes& sizes, std::string_view name) {
  for (const auto& [known, value] : sizes)
    if (known == name) return value;
  return std::nullopt;
}

Result<NamedSizes> resolve_sizes(std::span<const SizeRule> rules, const NamedSizes& given, const ConfigNumber& config,
                                 std::int64_t least, const std::function<std::string(int line)>& where) {
  Resolved resolved;
  for (const SizeRule& rule : rules) {
    const auto value = value_of(rule, given, config, &resolved);
    if (!value) continue;
    if (*value < least)
      return invalid_argument(
          fmt::format("{}: size '{}' must be at least {}, found {}", where(rule.line), rule.name, least, *value));
    resolved.sizes.emplace_back(rule.name, *value);
  }
  return std::move(resolved.sizes);
}

}  // namespace tenplex
