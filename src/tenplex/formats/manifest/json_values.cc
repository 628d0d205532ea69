// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/json_values.h"

#include <fmt/format.h>

namespace tenplex {

Result<void> read_value(JsonReader& json, std::string_view* value) {
  TENPLEX_ASSIGN_OR_RETURN(*value, json.string());
  return {};
}

Result<void> read_value(JsonReader& json, std::string* value) {
  TENPLEX_ASSIGN_OR_RETURN(*value, json.string());
  return {};
}

Result<void> read_value(JsonReader& json, std::int64_t* value) {
  TENPLEX_ASSIGN_OR_RETURN(*value, json.integer());
  return {};
}

Result<void> read_value(JsonReader& json, Dims* value) {
  *value = Dims();
  return for_each_element(json, [&]() -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t length, json.integer());
    if (value->rank() == kMaxRank) return unsupported(fmt::format("more than {} dimensions", kMaxRank));
    value->push_back(length);
    return {};
  });
}

Result<void> read_value(JsonReader& json, JsonTexts* texts) {
  return for_each_member(json, [&](std::string_view key) {
    texts->emplace_back(key, "");
    return read_value(json, &texts->back().second);
  });
}

Result<void> skip_value(JsonReader& json) {
  TENPLEX_TRY(json.skip());
  return {};
}

Result<void> end_list(JsonReader& json) {
  TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
  if (more) return json.fail("a list is too long");
  return {};
}

void append_texts(JsonWriter& json, const JsonTexts& texts) {
  json.begin_object();
  for (const auto& [key, text] : texts) json.member(key, text);
  json.end_object();
}

}  // namespace tenplex
