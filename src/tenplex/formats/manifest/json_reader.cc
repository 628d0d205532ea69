// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>

#include "tenplex/base/utf8.h"

namespace tenplex {
namespace {

constexpr std::size_t kFewKeys = 8;  // compared pair by pair instead of sorted

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::uint32_t code, std::string* out) {
  const auto put = [out](std::uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace

Error JsonReader::fail(std::string_view what) const {
  return corrupt(fmt::format("JSON byte {}: {}", position_, what));
}

void JsonReader::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++position_;
  }
}

bool JsonReader::take(char c) {
  if (position_ >= text_.size() || text_[position_] != c) return false;
  ++position_;
  return true;
}

Result<JsonKind> JsonReader::peek() {
  skip_space();
  if (position_ >= text_.size()) return fail("unexpected end");
  switch (const char c = text_[position_]) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 'n':
      return JsonKind::kNull;
    case 't':
    case 'f':
      return JsonKind::kBool;
    default:
      if (c == '-' || is_digit(c)) return JsonKind::kNumber;
      return fail("expected a value");
  }
}

Result<void> JsonReader::open(char bracket, bool is_object) {
  skip_space();
  if (!take(bracket)) return fail(is_object ? "expected an object" : "expected an array");
  if (depth_ == kMaxDepth) return fail(fmt::format("nested deeper than {}", kMaxDepth));
  if (levels_.size() == static_cast<std::size_t>(depth_)) levels_.emplace_back();
  Level& level = levels_[static_cast<std::size_t>(depth_++)];
  level.is_object = is_object;
  level.first = true;
  level.keys.clear();
  return {};
}

Result<void> JsonReader::begin_object() { return open('{', true); }
Result<void> JsonReader::begin_array() { return open('[', false); }

Result<void> JsonReader::close() {
  std::vector<Key>& keys = levels_[static_cast<std::size_t>(--depth_)].keys;
  const auto same = [](const Key& a, const Key& b) { return a.hash == b.hash && a.text == b.text; };
  const Key* twice = nullptr;
  if (keys.size() <= kFewKeys) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      for (std::size_t k = i + 1; k < keys.size(); ++k)
        if (same(keys[i], keys[k])) twice = &keys[i];
  } else {
    std::sort(keys.begin(), keys.end(),
              [](const Key& a, const Key& b) { return a.hash != b.hash ? a.hash < b.hash : a.text < b.text; });
    const auto found = std::adjacent_find(keys.begin(), keys.end(), same);
    if (found != keys.end()) twice = &*found;
  }
  if (twice != nullptr) return fail(fmt::format("duplicate key '{}'", twice->text));
  return {};
}

Result<bool> JsonReader::next_member(std::string_view* key) {
  Level& level = levels_[static_cast<std::size_t>(depth_ - 1)];
  skip_space();
  if (take('}')) {
    TENPLEX_TRY(close());
    return false;
  }
  if (!level.first) {
    if (!take(',')) return fail("expected ',' or '}'");
    skip_space();
  }
  level.first = false;
  TENPLEX_ASSIGN_OR_RETURN(*key, token_string());
  level.keys.push_back({std::hash<std::string_view>{}(*key), *key});
  skip_space();
  if (!take(':')) return fail("expected ':'");
  return true;
}

Result<bool> JsonReader::next_element() {
  Level& level = levels_[static_cast<std::size_t>(depth_ - 1)];
  skip_space();
  if (level.first) {
    level.first = false;
    if (!take(']')) return true;
  } else {
    if (take(',')) return true;
    if (!take(']')) return fail("expected ',' or ']'");
  }
  --depth_;
  return false;
}

Result<std::string_view> JsonReader::string() {
  skip_space();
  return token_string();
}

Result<std::string_view> JsonReader::token_string() {
  if (!take('"')) return fail("expected a string");
  const std::size_t begin = position_;
  bool ascii = true;
  for (; position_ < text_.size(); ++position_) {
    const auto c = static_cast<unsigned char>(text_[position_]);
    if (c == '"') {
      const std::string_view token = text_.substr(begin, position_ - begin);
      if (!ascii && find_invalid_utf8(token) != std::string_view::npos) return fail("a string is not valid UTF-8");
      ++position_;
      return token;
    }
    if (c == '\\') return escaped_string(begin);
    if (c < 0x20) return fail("a control character in a string");
    ascii = ascii && c < 0x80;
  }
  return fail("a string does not end");
}

Result<std::string_view> JsonReader::escaped_string(std::size_t begin) {
  std::string decoded(text_.substr(begin, position_ - begin));
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    if (c == '"') {
      if (find_invalid_utf8(decoded) != std::string_view::npos) return fail("a string is not valid UTF-8");
      return std::string_view(unescaped_.emplace_back(std::move(decoded)));
    }
    if (static_cast<unsigned char>(c) < 0x20) return fail("a control character in a string");
    if (c == '\\') {
      TENPLEX_TRY(escape(&decoded));
    } else {
      decoded.push_back(c);
    }
  }
  return fail("a string does not end");
}

Result<void> JsonReader::escape(std::string* out) {
  if (position_ >= text_.size()) return fail("a string does not end");
  const char c = text_[position_++];
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t index = kLetters.find(c); index != std::string_view::npos) {
    out->push_back(kMeanings[index]);
    return {};
  }
  if (c != 'u') return fail("unknown escape in a string");
  TENPLEX_ASSIGN_OR_RETURN(std::uint32_t code, hex4());
  if (code >= 0xDC00 && code < 0xE000) return fail("a lone surrogate in a string");
  if (code >= 0xD800 && code < 0xDC00) {
    if (!take('\\') || !take('u')) return fail("a lone surrogate in a string");
    TENPLEX_ASSIGN_OR_RETURN(const std::uint32_t low, hex4());
    if (low < 0xDC00 || low >= 0xE000) return fail("a lone surrogate in a string");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(code, out);
  return {};
}

Result<std::uint32_t> JsonReader::hex4() {
  std::uint32_t code = 0;
  if (text_.size() - position_ < 4) return fail("expected four hexadecimal digits");
  const char* first = text_.data() + position_;
  if (std::from_chars(first, first + 4, code, 16).ptr != first + 4) return fail("expected four hexadecimal digits");
  position_ += 4;
  return code;
}

Result<std::string_view> JsonReader::token_number() {
  skip_space();
  const std::size_t begin = position_;
  const auto digits = [this] {
    const std::size_t from = position_;
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
    return position_ - from;
  };
  take('-');
  if (!take('0') && digits() == 0) return fail("expected a number");
  if (position_ < text_.size() && is_digit(text_[position_])) return fail("a number starts with 0");
  if (take('.') && digits() == 0) return fail("expected a digit");
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    if (digits() == 0) return fail("expected a digit");
  }
  return text_.substr(begin, position_ - begin);
}

Result<std::int64_t> JsonReader::integer() {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view token, token_number());
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (status == std::errc::result_out_of_range) return fail("an integer exceeds 64 bits");
  if (status != std::errc() || end != token.data() + token.size()) return fail("expected an integer");
  return value;
}

Result<double> JsonReader::number() {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view token, token_number());
  double value = 0;
  const auto [end, status] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (status != std::errc() || end != token.data() + token.size()) return fail("a number exceeds a double");
  return value;
}

Result<void> JsonReader::literal(std::string_view word) {
  skip_space();
  if (text_.substr(position_, word.size()) != word) return fail(fmt::format("expected {}", word));
  position_ += word.size();
  return {};
}

Result<bool> JsonReader::boolean() {
  skip_space();
  const bool value = position_ < text_.size() && text_[position_] == 't';
  TENPLEX_TRY(literal(value ? "true" : "false"));
  return value;
}

Result<void> JsonReader::null() { return literal("null"); }

Result<void> JsonReader::skip_scalar() {
  TENPLEX_ASSIGN_OR_RETURN(const JsonKind kind, peek());
  switch (kind) {
    case JsonKind::kNull:
      return null();
    case JsonKind::kBool:
      TENPLEX_TRY(boolean());
      return {};
    case JsonKind::kNumber:
      TENPLEX_TRY(token_number());
      return {};
    case JsonKind::kString:
      TENPLEX_TRY(string());
      return {};
    case JsonKind::kArray:
      return begin_array();
    case JsonKind::kObject:
      return begin_object();
  }
  return {};
}

Result<std::string_view> JsonReader::skip() {
  skip_space();
  const std::size_t begin = position_;
  const int depth = depth_;
  TENPLEX_TRY(skip_scalar());
  while (depth_ > depth) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(
        const bool more, levels_[static_cast<std::size_t>(depth_ - 1)].is_object ? next_member(&key) : next_element());
    if (more) TENPLEX_TRY(skip_scalar());
  }
  return text_.substr(begin, position_ - begin);
}

Result<void> JsonReader::finish() {
  skip_space();
  if (position_ != text_.size()) return fail("unexpected text after the end");
  return {};
}

}  // namespace tenplex
