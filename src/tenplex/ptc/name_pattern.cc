// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/name_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "tenplex/base/check.h"

namespace tenplex {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

std::optional<std::int64_t> parse_number(std::string_view digits) {
  std::int32_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

}  // namespace

Result<NamePattern> NamePattern::parse(std::string_view text) {
  if (text.empty()) return invalid_argument("a pattern is empty");
  NamePattern pattern;
  pattern.text_ = text;
  std::string_view rest = text;
  while (!rest.empty()) {
    const bool after_capture = !pattern.tokens_.empty() && pattern.tokens_.back().kind != Kind::kLiteral;
    if (rest.front() != '*' && rest.front() != '{') {
      const std::size_t length = std::min(rest.find_first_of("*{}"), rest.size());
      if (length == 0) return invalid_argument(fmt::format("pattern '{}': '}}' without '{{'", text));
      pattern.tokens_.push_back({Kind::kLiteral, std::string(rest.substr(0, length))});
      rest.remove_prefix(length);
      continue;
    }
    if (after_capture) return invalid_argument(fmt::format("pattern '{}': two captures without text between", text));
    if (rest.front() == '*') {
      pattern.tokens_.push_back({Kind::kStar, {}});
      rest.remove_prefix(1);
      continue;
    }
    const std::size_t close = rest.find('}');
    if (close == std::string_view::npos) return invalid_argument(fmt::format("pattern '{}': '{{' is not closed", text));
    const std::string word(rest.substr(1, close - 1));
    if (word.empty() || !std::all_of(word.begin(), word.end(), is_word))
      return invalid_argument(fmt::format("pattern '{}': '{{{}}}' is not a word", text, word));
    if (word != "any" && pattern.has_capture(word))
      return invalid_argument(fmt::format("pattern '{}': '{{{}}}' occurs twice", text, word));
    const Kind kind = word == "any" || word == "slot" ? Kind::kComponent
                      : word == "param"               ? Kind::kText
                                                      : Kind::kNumber;
    pattern.tokens_.push_back({kind, word});
    rest.remove_prefix(close + 1);
  }
  return pattern;
}

bool NamePattern::has_capture(std::string_view word) const {
  return std::any_of(tokens_.begin(), tokens_.end(), [&](const Token& token) {
    return token.kind != Kind::kLiteral && token.kind != Kind::kStar && token.text == word;
  });
}

bool NamePattern::captures_only_numbers() const {
  return std::all_of(tokens_.begin(), tokens_.end(),
                     [](const Token& token) { return token.kind == Kind::kLiteral || token.kind == Kind::kNumber; });
}

std::vector<std::string> NamePattern::words() const {
  std::vector<std::string> words;
  for (const Token& token : tokens_)
    if (token.kind != Kind::kLiteral && token.kind != Kind::kStar) words.push_back(token.text);
  return words;
}

std::string NamePattern::fill(std::span<const std::string> words, std::span<const std::int64_t> values) const {
  std::string name;
  for (const Token& token : tokens_) {
    if (token.kind == Kind::kLiteral) {
      name += token.text;
      continue;
    }
    const auto word = std::find(words.begin(), words.end(), token.text);
    TENPLEX_CHECK(token.kind == Kind::kNumber && word != words.end());
    fmt::format_to(std::back_inserter(name), "{}", values[static_cast<std::size_t>(word - words.begin())]);
  }
  return name;
}

bool NamePattern::has_literals(std::string_view name) const {
  std::size_t at = 0;
  for (const Token& token : tokens_) {
    if (token.kind != Kind::kLiteral) continue;
    at = name.find(token.text, at);
    if (at == std::string_view::npos) return false;
    at += token.text.size();
  }
  return true;
}

void NamePattern::advance(const Token& token, std::string_view name, const std::vector<Reached>& from,
                          std::vector<Reached>* to) {
  for (std::size_t index = 0; index < from.size(); ++index) {
    const std::size_t begin = from[index].end;
    const auto reach = [&](std::size_t end) {
      // Ends come in ascending order from each start; what an earlier start reached is not reached again.
      if (to->empty() || to->back().end < end) to->push_back({end, index});
    };
    std::size_t end = begin;
    switch (token.kind) {
      case Kind::kLiteral:
        if (name.substr(begin, token.text.size()) == token.text) reach(begin + token.text.size());
        break;
      case Kind::kStar:
        for (; end <= name.size(); ++end) reach(end);
        break;
      case Kind::kText:
        for (end = begin + 1; end <= name.size(); ++end) reach(end);
        break;
      case Kind::kComponent:
        while (end < name.size() && name[end] != '.') reach(++end);
        break;
      case Kind::kNumber:
        if (begin > 0 && is_digit(name[begin - 1])) break;
        while (end < name.size() && is_digit(name[end])) ++end;
        if (end > begin && parse_number(name.substr(begin, end - begin))) reach(end);
        break;
    }
    if ((token.kind == Kind::kStar || token.kind == Kind::kText) && !to->empty()) break;
  }
}

std::optional<NamePattern::Captures> NamePattern::match(std::string_view name) const {
  const Token& first = tokens_.front();
  const Token& last = tokens_.back();
  if (first.kind == Kind::kLiteral && !name.starts_with(first.text)) return std::nullopt;
  if (last.kind == Kind::kLiteral && !name.ends_with(last.text)) return std::nullopt;
  if (!has_literals(name)) return std::nullopt;
  std::vector<std::vector<Reached>> reached(tokens_.size() + 1);
  reached[0].push_back({0, 0});
  for (std::size_t token = 0; token < tokens_.size(); ++token) {
    advance(tokens_[token], name, reached[token], &reached[token + 1]);
    if (reached[token + 1].empty()) return std::nullopt;
  }
  if (reached.back().back().end != name.size()) return std::nullopt;
  Captures captures;
  std::size_t at = reached.back().size() - 1;
  for (std::size_t token = tokens_.size(); token-- > 0;) {
    const Reached here = reached[token + 1][at];
    at = here.previous;
    const std::size_t begin = reached[token][at].end;
    const Token& shape = tokens_[token];
    if (shape.kind == Kind::kLiteral || shape.kind == Kind::kStar) continue;
    Capture capture{shape.text, std::string(name.substr(begin, here.end - begin)), -1};
    if (shape.kind == Kind::kNumber) capture.number = *parse_number(capture.text);
    captures.push_back(capture);
  }
  std::reverse(captures.begin(), captures.end());
  return captures;
}

std::optional<std::int64_t> captured_number(const NamePattern::Captures& captures, std::string_view word) {
  for (const NamePattern::Capture& capture : captures)
    if (capture.word == word) return capture.number;
  return std::nullopt;
}

}  // namespace tenplex
