// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/json_writer.h"

#include <fmt/format.h>

#include <iterator>

#include "tenplex/base/printable.h"
#include "tenplex/base/utf8.h"

namespace tenplex {

void append_json_string(std::string* out, std::string_view text) {
  out->push_back('"');
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out->append(text, from, at - from);
    from = at + 1;
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out->append(text, from);
  out->push_back('"');
}

void JsonWriter::separate() {
  if (!first_) out_->push_back(',');
  first_ = false;
}

void JsonWriter::begin(char bracket) {
  separate();
  out_->push_back(bracket);
  first_ = true;
}

void JsonWriter::end(char bracket) {
  out_->push_back(bracket);
  first_ = false;
}

void JsonWriter::key(std::string_view name) {
  separate();
  append_text(name);
  out_->push_back(':');
  first_ = true;
}

void JsonWriter::value(std::string_view text) {
  separate();
  append_text(text);
}

void JsonWriter::append_text(std::string_view text) {
  if (!not_utf8_ && find_invalid_utf8(text) != std::string_view::npos) not_utf8_ = text;
  append_json_string(out_, text);
}

Result<void> JsonWriter::check() const {
  if (!not_utf8_) return {};
  return unsupported(fmt::format("'{}' is not UTF-8, and cannot be written as JSON", printable(*not_utf8_)));
}

void JsonWriter::value(std::int64_t number) {
  separate();
  fmt::format_to(std::back_inserter(*out_), "{}", number);
}

void JsonWriter::value(double number) {
  separate();
  fmt::format_to(std::back_inserter(*out_), "{}", number);
}

void JsonWriter::value(const Dims& dims) {
  begin_array();
  for (const std::int64_t length : dims) value(length);
  end_array();
}

void JsonWriter::raw(std::string_view json) {
  separate();
  out_->append(json);
}

}  // namespace tenplex
