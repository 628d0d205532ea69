// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/checkpoint_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "tenplex/base/bytes.h"
#include "tenplex/cli/context.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/formats/state/state_numbers.h"
#include "tenplex/io/path.h"
#include "tenplex/ptc/mesh.h"

namespace tenplex::cli {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::int64_t kMaxConfigBytes = std::int64_t{16} << 20;

using Numbers = std::map<std::string, std::int64_t, std::less<>>;
using Texts = std::map<std::string, std::string, std::less<>>;

/// What a configuration says: its numbers, where true and false are 1 and 0, and values that are no whole numbers.
struct Configuration {
  Numbers numbers;
  Texts odd;
};

std::string short_text(const Json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "…";
  return text;
}

bool fits(const Json& value) {
  return value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
}

Result<void> check_config_size(std::int64_t bytes) {
  if (bytes <= kMaxConfigBytes) return {};
  return out_of_range(
      fmt::format("'{}' has {}: expected at most {}", kConfig, format_bytes(bytes), format_bytes(kMaxConfigBytes)));
}

/// The text of the checkpoint's config.json, or of the one beside it; nothing where there is none.
Result<std::optional<std::string>> config_text(FileSystem& files, const std::string& path,
                                               const CheckpointReader* reader) {
  if (reader != nullptr)
    for (const ExtraFile& extra : reader->info().extra_files)
      if (extra.path == kConfig) {
        TENPLEX_TRY(check_config_size(extra.size_bytes));
        TENPLEX_ASSIGN_OR_RETURN(std::string text, reader->read_extra_file(extra));
        return std::optional(std::move(text));
      }
  const auto status = files.status(path);
  const bool folder = status && status->kind == FileKind::kFolder;
  const auto source = files.open(fmt::format("{}/{}", folder ? path : parent_path(path), kConfig));
  if (!source) return std::optional<std::string>();
  TENPLEX_TRY(check_config_size((*source)->size()));
  TENPLEX_ASSIGN_OR_RETURN(std::string text, read_string(**source, 0, (*source)->size()));
  return std::optional(std::move(text));
}

Result<Configuration> read_config(FileSystem& files, const std::string& path, const CheckpointReader* reader) {
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<std::string> text, config_text(files, path, reader));
  const Json config = text ? Json::parse(*text, nullptr, false) : Json::object();
  if (!config.is_object()) return corrupt(fmt::format("the '{}' of '{}' is no JSON object", kConfig, path));
  Configuration read;
  for (const auto& [key, value] : config.items()) {
    if (fits(value)) {
      read.numbers.emplace(key, value.get<std::int64_t>());
    } else if (!value.is_null()) {
      read.odd.emplace(key, short_text(value));
    }
    if (value.is_boolean()) read.numbers.emplace(key, value.get<bool>() ? 1 : 0);
  }
  return read;
}

/// Adds the numbers of Megatron's arguments, where config.json has none of that name.
void add_arguments(const StateGraph& state, Configuration* configuration) {
  constexpr std::array<std::string_view, 2> kCommon = {"common", "args"};
  constexpr std::array<std::string_view, 1> kTop = {"args"};
  for (const std::span<const std::string_view> place : {std::span<const std::string_view>(kCommon), {kTop}}) {
    const auto node = node_at(state, place);
    if (!node || state[*node].kind != NodeKind::kObject || state.object(*node).state == kNoNode) continue;
    const auto items = mapping_items(state, state.object(*node).state);
    if (!items) continue;
    Configuration found;
    for (std::size_t index = 0; index + 1 < items->size(); index += 2) {
      const Node& key = state[(*items)[index]];
      const Node& value = state[(*items)[index + 1]];
      if (key.kind != NodeKind::kString) continue;
      if (value.kind == NodeKind::kInt) {
        found.numbers.emplace(key.text, value.integer);
      } else if (value.kind != NodeKind::kNone && !configuration->numbers.contains(key.text)) {
        found.odd.emplace(key.text, "a value of another kind");
      }
      if (value.kind == NodeKind::kBool) found.numbers.emplace(key.text, value.boolean ? 1 : 0);
    }
    // Without grouped queries the argument num_query_groups is there and means nothing.
    const auto grouped = found.numbers.find("group_query_attention");
    if (grouped != found.numbers.end() && grouped->second == 0) {
      found.numbers.erase("num_query_groups");
      found.odd.erase("num_query_groups");
    }
    configuration->numbers.merge(found.numbers);
    configuration->odd.merge(found.odd);
    return;
  }
}

}  // namespace

ConfigNumber SizeSource::numbers() const {
  if (config) return config;
  return [](std::string_view) { return std::optional<std::int64_t>(); };
}

void SizeSource::warn_of_other(const SizeRule& rule, std::int64_t size) const {
  for (const std::string& key : rule.config) {
    const auto configured = numbers()(key);
    if (configured && *configured != size)
      warn(fmt::format("--sizes {}={} counts, but the configuration has {} {}", rule.name, size, key, *configured));
    if (configured) return;
  }
}

Result<void> SizeSource::check(std::span<const SizeRule> rules) const {
  if (problem && std::any_of(rules.begin(), rules.end(), [](const SizeRule& rule) { return !rule.config.empty(); }))
    return *problem;
  for (const SizeRule& rule : rules) {
    if (const auto size = find_size(given, rule.name)) {
      warn_of_other(rule, *size);
      continue;
    }
    for (const std::string& key : rule.config) {
      const auto found = odd.find(key);
      if (found != odd.end())
        return corrupt(fmt::format("size '{}': the configuration has {} {}, expected a whole number", rule.name, key,
                                   found->second));
      if (numbers()(key)) break;
    }
  }
  return {};
}

Result<SizeSource> checkpoint_sizes(FileSystem& files, const std::string& path, const CheckpointReader* reader,
                                    const std::string& text) {
  SizeSource source;
  TENPLEX_ASSIGN_OR_RETURN(source.given, parse_named_numbers(text, "sizes", "NAME=NUMBER"));
  auto configured = read_config(files, path, reader);
  if (!configured) source.problem = configured.error();
  Configuration configuration = configured ? *std::move(configured) : Configuration();
  if (reader != nullptr) add_arguments(reader->info().state, &configuration);
  source.odd = std::move(configuration.odd);
  const auto shared = std::make_shared<const Numbers>(std::move(configuration.numbers));
  source.config = [shared](std::string_view key) -> std::optional<std::int64_t> {
    const auto found = shared->find(key);
    if (found == shared->end()) return std::nullopt;
    return found->second;
  };
  return source;
}

}  // namespace tenplex::cli
