// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/hf_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/manifest/json_values.h"
#include "tenplex/io/file_system.h"

namespace tenplex::hf {
namespace {

constexpr std::size_t kDigits = 5;

Result<void> read_total_size(JsonReader& json, Index* index) {
  TENPLEX_ASSIGN_OR_RETURN(const double size, json.number());  // some writers give 1.0e9
  if (!(size >= 0 && size < 9.2e18)) return json.fail("'total_size' is no size");
  index->total_size = static_cast<std::int64_t>(size);
  return {};
}

Result<void> read_metadata(JsonReader& json, Index* index) {
  return for_each_member(json, [&](std::string_view key) {
    if (key == "total_size") return read_total_size(json, index);
    if (key != "total_parameters") index->passed_over.emplace_back(key);
    return skip_value(json);
  });
}

Result<void> read_weight_map(JsonReader& json, Index* index) {
  TENPLEX_TRY(read_value(json, &index->weight_map));
  for (const auto& [tensor, file] : index->weight_map)
    if (auto path = checked_join(".", file); !path)
      return std::move(path).error().with_context(fmt::format("tensor '{}'", tensor));
  return {};
}

/// Takes exactly five digits from the end.
std::optional<std::int64_t> take_number(std::string_view* text) {
  if (text->size() < kDigits) return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text->substr(text->size() - kDigits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text->remove_suffix(kDigits);
  return value;
}

}  // namespace

Result<Index> parse_index(std::string_view text) {
  Index index;
  bool seen_map = false;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
    if (key == "metadata") return read_metadata(json, &index);
    if (key != "weight_map") return skip_value(json);
    seen_map = true;
    return read_weight_map(json, &index);
  }));
  TENPLEX_TRY(json.finish());
  if (!seen_map) return json.fail("'weight_map' is missing");
  return index;
}

std::string write_index(std::int64_t total_size, std::int64_t total_parameters,
                        std::vector<std::pair<std::string, std::string>> weight_map) {
  std::sort(weight_map.begin(), weight_map.end());
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_parameters\": {},\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{",
      total_parameters, total_size);
  for (std::size_t k = 0; k < weight_map.size(); ++k) {
    text += k == 0 ? "\n    " : ",\n    ";
    append_json_string(&text, weight_map[k].first);
    text += ": ";
    append_json_string(&text, weight_map[k].second);
  }
  text += "\n  }\n}\n";
  return text;
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  if (!name.ends_with(kExtension)) return std::nullopt;
  name.remove_suffix(kExtension.size());
  const auto count = take_number(&name);
  if (!count || !name.ends_with(kOf)) return std::nullopt;
  name.remove_suffix(kOf.size());
  const auto number = take_number(&name);
  if (!number || !name.ends_with('-') || name.size() == 1) return std::nullopt;
  name.remove_suffix(1);
  return ShardName{std::string(name), *number, *count};
}

std::string shard_name(std::int64_t number, std::int64_t count) {
  return fmt::format("model-{:05}-of-{:05}{}", number, count, kExtension);
}

}  // namespace tenplex::hf
