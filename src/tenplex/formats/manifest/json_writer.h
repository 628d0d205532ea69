// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// JsonWriter: appends compact JSON to a string. Commas are its business; balance of brackets is the caller's.
//
//   JsonWriter json(&text);
//   json.begin_object(); json.member("shape", dims); json.end_object();   // {"shape":[4,8]}
//
// Resource; borrows the string. Threads: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/ptc/dims.h"

namespace tenplex {

class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void begin_object() { begin('{'); }
  void end_object() { end('}'); }
  void begin_array() { begin('['); }
  void end_array() { end(']'); }
  void key(std::string_view name);

  /// Errors: unsupported naming the first text that is not UTF-8: what was written is no JSON.
  Result<void> check() const;

  /// What is no valid UTF-8 is written as it is; check() then gives an error.
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(std::int64_t number);
  void value(bool flag) { raw(flag ? "true" : "false"); }
  /// Requires: finite. The shortest digits that read back as the same double.
  void value(double number);
  void value(const Dims& dims);
  void null() { raw("null"); }
  /// Text that is JSON already.
  void raw(std::string_view json);

  template <typename T>
  void member(std::string_view name, const T& of) {
    key(name);
    value(of);
  }
  /// An array of these.
  template <typename... T>
  void list(const T&... values) {
    begin_array();
    (value(values), ...);
    end_array();
  }

 private:
  void begin(char bracket);
  void end(char bracket);
  void separate();
  void append_text(std::string_view text);

  std::string* out_;
  std::optional<std::string> not_utf8_;
  bool first_ = true;
};

/// Appends `text` as a JSON string with its quotes. Requires: valid UTF-8.
void append_json_string(std::string* out, std::string_view text);

}  // namespace tenplex
