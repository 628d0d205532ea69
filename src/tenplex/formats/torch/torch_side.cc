// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_side.h"

#include "tenplex/formats/manifest/envelope.h"

namespace tenplex {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::string_view kDcpKeys = "DCP_";  // metadata that describes how the source was cut

}  // namespace

std::string encode_torch_side(const JsonTexts& metadata) {
  JsonTexts kept;
  for (const auto& entry : metadata)
    if (!entry.first.starts_with(kDcpKeys)) kept.push_back(entry);
  if (kept.empty() || kept == JsonTexts{{"format", "pt"}}) return {};
  std::string text;
  JsonWriter json(&text);
  json.begin_object();
  json.member("version", kVersion);
  json.member("oldest_reader", kVersion);
  json.key("metadata");
  append_texts(json, kept);
  json.end_object();
  return text;
}

Result<JsonTexts> decode_torch_side(std::string_view text) {
  JsonTexts metadata;
  std::int64_t oldest_reader = 0;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
    if (key == "oldest_reader") return read_value(json, &oldest_reader);
    if (key == "metadata") return read_value(json, &metadata);
    return skip_value(json);
  }));
  TENPLEX_TRY(json.finish());
  TENPLEX_TRY(check_oldest_reader(oldest_reader, kVersion));
  return metadata;
}

}  // namespace tenplex
