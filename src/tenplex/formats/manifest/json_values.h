// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Values of JSON in one call each, on top of JsonReader.
//
//   TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
//     if (key == "path") return read_value(json, &path);             // {"path":"a",
//     if (key == "box") return read_list(json, &offset, &extent);    //  "box":[[0,0],[2,3]],
//     return skip_value(json);                                       //  "later":{"x":1}}
//   }));
//
// Pure functions. Errors are those of JsonReader.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_reader.h"
#include "tenplex/formats/manifest/json_writer.h"
#include "tenplex/ptc/dims.h"

namespace tenplex {

/// Reads an object. `member(key)` reads the value of each member and returns a Result<void>.
template <typename Member>
Result<void> for_each_member(JsonReader& json, Member member) {
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) return {};
    TENPLEX_TRY(member(key));
  }
}

/// Reads what is left of an array. `element()` reads each element and returns a Result<void>.
template <typename Element>
Result<void> for_each_further_element(JsonReader& json, Element element) {
  for (;;) {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
    if (!more) return {};
    TENPLEX_TRY(element());
  }
}

/// Reads an array, as for_each_further_element().
template <typename Element>
Result<void> for_each_element(JsonReader& json, Element element) {
  TENPLEX_TRY(json.begin_array());
  return for_each_further_element(json, element);
}

/// Strings live as JsonReader says. Errors: unsupported for Dims of more than kMaxRank numbers.
Result<void> read_value(JsonReader& json, std::string_view* value);
Result<void> read_value(JsonReader& json, std::string* value);
Result<void> read_value(JsonReader& json, std::int64_t* value);
Result<void> read_value(JsonReader& json, Dims* value);

/// Passes over a value of any kind.
Result<void> skip_value(JsonReader& json);

/// Reads the next element of an array, which must be there.
template <typename T>
Result<void> next_value(JsonReader& json, T* value) {
  TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
  if (!more) return json.fail("a list is too short");
  return read_value(json, value);
}

/// Reads the next elements likewise.
template <typename... T>
Result<void> next_values(JsonReader& json, T*... values) {
  Result<void> read;
  (void)((read = next_value(json, values)).has_value() && ...);
  return read;
}

/// Reads the end of an array.
Result<void> end_list(JsonReader& json);

/// Reads an array of exactly these.
template <typename... T>
Result<void> read_list(JsonReader& json, T*... values) {
  TENPLEX_TRY(json.begin_array());
  TENPLEX_TRY(next_values(json, values...));
  return end_list(json);
}

/// {key: text, …} in the file's order.
using JsonTexts = std::vector<std::pair<std::string, std::string>>;
Result<void> read_value(JsonReader& json, JsonTexts* texts);
/// Requires: valid UTF-8.
void append_texts(JsonWriter& json, const JsonTexts& texts);

}  // namespace tenplex
