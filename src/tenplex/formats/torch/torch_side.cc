// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_side.h"

#include <fmt/format.h>

#include "tenplex/formats/manifest/json_reader.h"
#include "tenplex/formats/manifest/json_writer.h"

namespace tenplex {
namespace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

constexpr std::int64_t kVersion = 1;
constexpr std::string_view kDcpKeys = "DCP_";  // metadata that describes how the source was cut

Result<void> read_texts(JsonReader& json, Metadata* metadata) {
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) return {};
    std::string name(key);
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json.string());
    metadata->emplace_back(std::move(name), text);
  }
}

}  // namespace

std::string encode_torch_side(const Metadata& metadata) {
  Metadata kept;
  for (const auto& entry : metadata)
    if (!entry.first.starts_with(kDcpKeys)) kept.push_back(entry);
  if (kept.empty() || kept == Metadata{{"format", "pt"}}) return {};
  std::string text;
  JsonWriter json(&text);
  json.begin_object();
  json.key("version");
  json.value(kVersion);
  json.key("oldest_reader");
  json.value(kVersion);
  json.key("metadata");
  json.begin_object();
  for (const auto& [key, value] : kept) {
    json.key(key);
    json.value(value);
  }
  json.end_object();
  json.end_object();
  return text;
}

Result<Metadata> decode_torch_side(std::string_view text) {
  Metadata metadata;
  std::int64_t oldest_reader = -1;
  JsonReader json(text);
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) break;
    if (key == "oldest_reader") {
      TENPLEX_ASSIGN_OR_RETURN(oldest_reader, json.integer());
      if (oldest_reader > kVersion)
        return unsupported(fmt::format("needs a reader of version {}, this is version {}", oldest_reader, kVersion));
    } else if (key == "metadata") {
      TENPLEX_TRY(read_texts(json, &metadata));
    } else {
      TENPLEX_TRY(json.skip());
    }
  }
  TENPLEX_TRY(json.finish());
  if (oldest_reader < 1) return corrupt("it does not say which reader it needs");
  return metadata;
}

}  // namespace tenplex
