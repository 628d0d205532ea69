// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// NamePattern: what a layout rule matches tensor names with. A pattern matches whole names.
//
//   decoder.layers.{layer}.mlp.experts.{expert}.weight
//
//   *         any text, also none, dots too
//   {any}     one part of a name: at least one character, no dot
//   {param}   at least one character, dots too
//   {word}    any other word: a decimal number, captured under this name
//
// Value type. Threads: as any value. Cost of a match: O(pattern · name); one that fails early costs less.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

class NamePattern {
 public:
  struct Capture {
    std::string_view word;  ///< borrowed from the pattern
    std::string text;
    std::int64_t number = -1;

    friend bool operator==(const Capture&, const Capture&) = default;
  };
  using Captures = std::vector<Capture>;

  /// Errors: invalid_argument for an empty pattern, a brace that is not closed, a word of other characters than
  /// letters, digits and '_', a word used twice, or two captures with nothing between them.
  static Result<NamePattern> parse(std::string_view text);

  const std::string& text() const { return text_; }
  /// True for "*", which matches everything.
  bool is_catch_all() const { return text_ == "*"; }
  bool has_capture(std::string_view word) const;
  /// True if there is no "*", {any}, {param} or {slot} in it.
  bool captures_only_numbers() const;
  /// The words in braces, in order.
  std::vector<std::string> words() const;
  /// The name in which the number of words[k] is values[k]. Requires: captures_only_numbers(); all words are there.
  std::string fill(std::span<const std::string> words, std::span<const std::int64_t> values) const;

  /// The captures, or nothing if the name does not match. Numbers of 2^31 and more do not match.
  std::optional<Captures> match(std::string_view name) const;

 private:
  enum class Kind : unsigned char { kLiteral, kStar, kComponent, kText, kNumber };
  struct Token {
    Kind kind;
    std::string text;  // the literal, or the word
  };
  // Where a match of the tokens so far can end, and where it stood one token before.
  struct Reached {
    std::size_t end;
    std::size_t previous;
  };
  // Do the literals occur in this order? Cheap, and false for most names.
  bool has_literals(std::string_view name) const;
  static void advance(const Token& token, std::string_view name, const std::vector<Reached>& from,
                      std::vector<Reached>* to);

  std::string text_;
  std::vector<Token> tokens_;
};

/// The number captured under `word`, or nothing.
std::optional<std::int64_t> captured_number(const NamePattern::Captures& captures, std::string_view word);

}  // namespace tenplex
