// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/backend_file.h"

#include <fmt/format.h>

namespace tenplex::megatron {
namespace {

constexpr std::string_view kBackend = "torch_dist";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kCommonBackend = "torch";

/// The four members that Megatron-Core knows.
struct Known {
  std::string backend;
  std::string common_backend{kCommonBackend};
  std::int64_t version = kVersion;
  std::int64_t common_version = kVersion;
};

Result<void> read_member(JsonReader& json, std::string_view key, Known* known, JsonTexts* others) {
  if (key == "sharded_backend") return read_value(json, &known->backend);
  if (key == "sharded_backend_version") return read_value(json, &known->version);
  if (key == "common_backend") return read_value(json, &known->common_backend);
  if (key == "common_backend_version") return read_value(json, &known->common_version);
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view value, json.skip());
  others->emplace_back(key, value);
  return {};
}

Result<void> check(const Known& known) {
  if (known.backend.empty()) return corrupt("there is no 'sharded_backend'");
  if (known.backend != kBackend || known.version != kVersion)
    return unsupported(fmt::format("sharded_backend '{}' of version {}: only '{}' of version {} is supported",
                                   known.backend, known.version, kBackend, kVersion));
  if (known.common_backend != kCommonBackend || known.common_version != kVersion)
    return unsupported(fmt::format("common_backend '{}' of version {}: only '{}' of version {} is supported",
                                   known.common_backend, known.common_version, kCommonBackend, kVersion));
  return {};
}

}  // namespace

Result<BackendFile> decode_backend_file(std::string_view text) {
  Known known;
  BackendFile file;
  JsonReader json(text);
  TENPLEX_TRY(
      for_each_member(json, [&](std::string_view key) { return read_member(json, key, &known, &file.others); }));
  TENPLEX_TRY(json.finish());
  TENPLEX_TRY(check(known));
  return file;
}

std::string encode_backend_file(bool has_common_file, const JsonTexts& others) {
  std::string text = fmt::format(R"({{"sharded_backend": "{}", "sharded_backend_version": {})", kBackend, kVersion);
  if (has_common_file)
    text += fmt::format(R"(, "common_backend": "{}", "common_backend_version": {})", kCommonBackend, kVersion);
  for (const auto& [key, value] : others) {
    text += ", ";
    append_json_string(&text, key);
    text += fmt::format(": {}", value);
  }
  return text + "}";
}

std::string encode_others(const JsonTexts& others) {
  std::string text;
  JsonWriter json(&text);
  json.begin_object();
  for (const auto& [key, value] : others) {
    json.key(key);
    json.raw(value);
  }
  json.end_object();
  return text;
}

Result<JsonTexts> decode_others(std::string_view text) {
  JsonTexts others;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view value, json.skip());
    others.emplace_back(key, value);
    return {};
  }));
  TENPLEX_TRY(json.finish());
  return others;
}

}  // namespace tenplex::megatron
