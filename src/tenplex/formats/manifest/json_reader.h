// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// JsonReader: a strict pull parser for JSON from untrusted files.
//
//   JsonReader json(text);
//   TENPLEX_TRY(json.begin_object());
//   for (;;) {
//     TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
//     if (!more) break;
//     if (key == "shape") …
//   }
//   TENPLEX_TRY(json.finish());
//
// Refuses what many parsers let pass: duplicate keys of an object (found when it ends), invalid UTF-8, lone surrogates,
// raw control characters, leading zeros, trailing commas, comments, and nesting deeper than kMaxDepth. It never
// recurses, and it allocates no more than a few words per key beside the text. All errors are `corrupt` and name the
// byte where reading stopped.
//
// Resource; borrows the text. Threads: none.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

enum class JsonKind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

class JsonReader {
 public:
  static constexpr int kMaxDepth = 64;

  /// Borrows `text` for the reader's life; strings handed out live as long as both.
  explicit JsonReader(std::string_view text) : text_(text) {}
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  /// Kind of the value that comes next, without consuming it.
  Result<JsonKind> peek();

  Result<void> begin_object();
  /// Moves to the next member and sets `*key`; false at the end of the object, which it consumes.
  /// Requires: the value of the member before was consumed.
  Result<bool> next_member(std::string_view* key);

  Result<void> begin_array();
  /// True if another element follows; false at the end of the array, which it consumes.
  Result<bool> next_element();

  Result<std::string_view> string();
  /// An integer without fraction or exponent that fits int64.
  Result<std::int64_t> integer();
  /// Any number; the nearest double.
  Result<double> number();
  Result<bool> boolean();
  Result<void> null();

  /// Consumes one value of any kind and returns its text.
  Result<std::string_view> skip();

  /// Errors unless only white space is left.
  Result<void> finish();

  /// Bytes consumed.
  std::size_t position() const { return position_; }

  /// A `corrupt` error at the current position.
  Error fail(std::string_view what) const;

 private:
  struct Key {
    std::uint64_t hash;
    std::string_view text;
  };
  struct Level {
    bool is_object = false;
    bool first = true;
    std::vector<Key> keys;
  };

  void skip_space();
  bool take(char c);
  Result<void> open(char bracket, bool is_object);
  Result<void> close();
  Result<std::string_view> token_string();
  Result<std::string_view> escaped_string(std::size_t begin);
  Result<void> escape(std::string* out);
  Result<std::uint32_t> hex4();
  Result<std::string_view> token_number();
  Result<void> literal(std::string_view word);
  Result<void> skip_scalar();

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
  std::vector<Level> levels_;          // [0, depth_) are open; the rest keep their capacity
  std::deque<std::string> unescaped_;  // texts of strings that held escapes
};

}  // namespace tenplex
