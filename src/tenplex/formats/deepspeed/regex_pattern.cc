// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/regex_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ranges>
#include <utility>

namespace tenplex::deepspeed {
namespace {

using CharacterSet = std::bitset<128>;

constexpr std::size_t kMaxCharacters = 1000;
constexpr std::size_t kMaxStates = 10'000;
constexpr int kMaxDepth = 20;
constexpr int kUnbounded = -1;

CharacterSet set_of(bool (*holds)(unsigned)) {
  CharacterSet set;
  for (unsigned character = 0; character < set.size(); ++character) set[character] = holds(character);
  return set;
}

bool is_digit(unsigned c) { return c >= '0' && c <= '9'; }
bool is_letter(unsigned c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(unsigned c) { return is_digit(c) || is_letter(c) || c == '_'; }
bool is_space(unsigned c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f); }

/// \d, \W, …; nothing for other letters.
std::optional<CharacterSet> class_of(char letter) {
  switch (letter) {
    case 'd':
      return set_of(is_digit);
    case 'D':
      return ~set_of(is_digit);
    case 'w':
      return set_of(is_word);
    case 'W':
      return ~set_of(is_word);
    case 's':
      return set_of(is_space);
    case 'S':
      return ~set_of(is_space);
    default:
      return std::nullopt;
  }
}

struct Expression {
  enum class Kind : std::uint8_t { kSequence, kChoice, kRepeat, kSet, kStart, kEnd, kVeryEnd };
  Kind kind = Kind::kSequence;
  std::vector<Expression> parts;
  CharacterSet set;
  int least = 0;
  int most = 0;
};

}  // namespace

class RegexPatternParser {
 public:
  explicit RegexPatternParser(std::string_view text) : text_(text) {}

  Result<RegexPattern> run() {
    if (text_.size() > kMaxCharacters) return bad(fmt::format("it has more than {} characters", kMaxCharacters));
    for (const char character : text_)
      if (static_cast<unsigned char>(character) >= 128) return bad("it has characters that are no ASCII");
    TENPLEX_ASSIGN_OR_RETURN(const Expression whole, choice(0));
    if (at_ < text_.size()) return bad("a ')' closes nothing");
    found_.states_.push_back({RegexPattern::Op::kMatch, 0, 0});
    found_.first_ = emit(whole, 0);
    if (too_large_) return bad(fmt::format("its repeats need more than {} states", kMaxStates));
    return std::move(found_);
  }

 private:
  Error bad(std::string_view why) const {
    return unsupported(fmt::format("pattern '{}' is not understood: {}", text_.substr(0, 200), why));
  }
  bool more() const { return at_ < text_.size(); }
  bool take(char character) {
    if (!more() || text_[at_] != character) return false;
    ++at_;
    return true;
  }

  static Expression single(const CharacterSet& set) {
    Expression found;
    found.kind = Expression::Kind::kSet;
    found.set = set;
    return found;
  }
  static Expression single(char character) {
    CharacterSet set;
    set.set(static_cast<unsigned char>(character));
    return single(set);
  }
  static Expression anchor(Expression::Kind kind) {
    Expression found;
    found.kind = kind;
    return found;
  }

  Result<Expression> choice(int depth) {
    Expression found;
    found.kind = Expression::Kind::kChoice;
    do {
      TENPLEX_ASSIGN_OR_RETURN(found.parts.emplace_back(), sequence(depth));
    } while (take('|'));
    return found;
  }

  Result<Expression> sequence(int depth) {
    Expression found;
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      TENPLEX_ASSIGN_OR_RETURN(Expression part, atom(depth));
      TENPLEX_ASSIGN_OR_RETURN(found.parts.emplace_back(), repeated(std::move(part)));
    }
    return found;
  }

  Result<Expression> atom(int depth) {
    const char character = text_[at_++];
    switch (character) {
      case '^':
        return anchor(Expression::Kind::kStart);
      case '$':
        return anchor(Expression::Kind::kEnd);
      case '.': {
        CharacterSet set;
        set.set('\n');
        return single(~set);
      }
      case '[':
        return bracket();
      case '(':
        return group(depth + 1);
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
      case '{':
        return bad(fmt::format("'{}' repeats nothing", character));
      default:
        return single(character);
    }
  }

  Result<Expression> group(int depth) {
    if (depth > kMaxDepth) return bad(fmt::format("its groups are more than {} deep", kMaxDepth));
    if (take('?') && !take(':')) return bad("'(?' is known only as '(?:'");
    TENPLEX_ASSIGN_OR_RETURN(Expression found, choice(depth));
    if (!take(')')) return bad("a ')' is missing");
    return found;
  }

  Result<Expression> escape() {
    if (!more()) return bad("a '\\' ends it");
    const char character = text_[at_++];
    if (const auto set = class_of(character)) return single(*set);
    if (character == 'A') return anchor(Expression::Kind::kStart);
    if (character == 'Z') return anchor(Expression::Kind::kVeryEnd);
    if (is_word(static_cast<unsigned char>(character)) && character != '_')
      return bad(fmt::format("'\\{}' is not known", character));
    return single(character);
  }

  Result<Expression> bracket() {
    CharacterSet set;
    const bool inverted = take('^');
    for (bool first = true; first || !take(']'); first = false) {
      TENPLEX_ASSIGN_OR_RETURN(const auto begin, member());
      if (!begin.second) {
        set |= begin.first;
        continue;
      }
      char end = *begin.second;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        TENPLEX_ASSIGN_OR_RETURN(const auto last, member());
        if (!last.second || *last.second < end) return bad("a range in '[…]' is none");
        end = *last.second;
      }
      for (int c = static_cast<unsigned char>(*begin.second); c <= static_cast<unsigned char>(end); ++c)
        set.set(static_cast<std::size_t>(c));
    }
    return single(inverted ? ~set : set);
  }

  /// A class, or a character.
  Result<std::pair<CharacterSet, std::optional<char>>> member() {
    if (!more()) return bad("a ']' is missing");
    char character = text_[at_++];
    if (character != '\\') return std::pair(CharacterSet(), std::optional(character));
    if (!more()) return bad("a ']' is missing");
    character = text_[at_++];
    if (const auto set = class_of(character)) return std::pair(*set, std::optional<char>());
    if (is_word(static_cast<unsigned char>(character)) && character != '_')
      return bad(fmt::format("'\\{}' is not known", character));
    return std::pair(CharacterSet(), std::optional(character));
  }

  Result<Expression> repeated(Expression part) {
    Expression found;
    found.kind = Expression::Kind::kRepeat;
    if (take('*')) {
      found.most = kUnbounded;
    } else if (take('+')) {
      found.least = 1;
      found.most = kUnbounded;
    } else if (take('?')) {
      found.most = 1;
    } else if (take('{')) {
      TENPLEX_TRY(read_counts(&found));
    } else {
      return part;
    }
    take('?');  // whether as few as possible does not matter: what is asked is whether there is a match
    if (more() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?' || text_[at_] == '{'))
      return bad("a repeat is repeated");
    if (part.kind >= Expression::Kind::kStart) return bad("a place is repeated");
    found.parts.push_back(std::move(part));
    return found;
  }

  Result<void> read_counts(Expression* repeat) {
    const auto least = count();
    if (!least) return bad("a '{' begins no count");
    repeat->least = repeat->most = *least;
    if (take(',')) {
      const auto most = count();
      repeat->most = most ? *most : kUnbounded;
      if (most && *most < *least) return bad("the counts in '{…}' fall");
    }
    if (take('}')) return {};
    return bad("a '{' begins no count");
  }

  std::optional<int> count() {
    constexpr int kMaxCount = 1000;
    int value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0 || value > kMaxCount) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::uint32_t add(RegexPattern::Op op, std::uint32_t next, std::uint32_t other = 0) {
    too_large_ = too_large_ || found_.states_.size() >= kMaxStates;
    if (too_large_) return 0;
    found_.states_.push_back({op, next, other});
    return static_cast<std::uint32_t>(found_.states_.size() - 1);
  }

  // The first state of the expression, after which comes `next`.
  std::uint32_t emit(const Expression& expression, std::uint32_t next) {
    if (too_large_) return 0;
    switch (expression.kind) {
      case Expression::Kind::kSequence:
        for (const Expression& part : std::ranges::reverse_view(expression.parts)) next = emit(part, next);
        return next;
      case Expression::Kind::kChoice: {
        std::uint32_t first = emit(expression.parts.back(), next);
        for (auto part = expression.parts.rbegin() + 1; part != expression.parts.rend(); ++part) {
          const std::uint32_t one = emit(*part, next);
          first = add(RegexPattern::Op::kSplit, one, first);
        }
        return first;
      }
      case Expression::Kind::kRepeat:
        return emit_repeat(expression, next);
      case Expression::Kind::kSet:
        found_.sets_.push_back(expression.set);
        return add(RegexPattern::Op::kSet, next, static_cast<std::uint32_t>(found_.sets_.size() - 1));
      case Expression::Kind::kStart:
        return add(RegexPattern::Op::kStart, next);
      case Expression::Kind::kEnd:
        return add(RegexPattern::Op::kEnd, next);
      case Expression::Kind::kVeryEnd:
        break;
    }
    return add(RegexPattern::Op::kVeryEnd, next);
  }

  std::uint32_t emit_repeat(const Expression& repeat, std::uint32_t next) {
    std::uint32_t first = next;
    if (repeat.most == kUnbounded) {
      first = add(RegexPattern::Op::kSplit, 0, next);
      const std::uint32_t body = emit(repeat.parts[0], first);
      if (!too_large_) found_.states_[first].next = body;
    } else {
      for (int count = repeat.least; count < repeat.most && !too_large_; ++count) {
        const std::uint32_t body = emit(repeat.parts[0], first);
        first = add(RegexPattern::Op::kSplit, body, next);
      }
    }
    for (int count = 0; count < repeat.least && !too_large_; ++count) first = emit(repeat.parts[0], first);
    return first;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  RegexPattern found_;
  bool too_large_ = false;
};

Result<RegexPattern> RegexPattern::parse(std::string_view text) { return RegexPatternParser(text).run(); }

bool RegexPattern::matches(std::string_view name) const {
  std::vector<std::size_t> seen(states_.size(), name.size() + 1);  // the place in the name
  std::vector<std::uint32_t> now = {first_};
  std::vector<std::uint32_t> next;
  for (std::size_t at = 0; !now.empty(); ++at) {
    next.clear();
    const bool at_end = at == name.size();
    while (!now.empty()) {
      const std::uint32_t index = now.back();
      now.pop_back();
      if (std::exchange(seen[index], at) == at) continue;
      const State& state = states_[index];
      switch (state.op) {
        case Op::kMatch:
          return true;
        case Op::kSet: {
          const auto character = at_end ? 128U : static_cast<unsigned char>(name[at]);
          if (character < 128 && sets_[state.other][character]) next.push_back(state.next);
          break;
        }
        case Op::kSplit:
          now.push_back(state.other);
          now.push_back(state.next);
          break;
        case Op::kStart:
          if (at == 0) now.push_back(state.next);
          break;
        case Op::kEnd:
          if (at_end || (at + 1 == name.size() && name[at] == '\n')) now.push_back(state.next);
          break;
        case Op::kVeryEnd:
          if (at_end) now.push_back(state.next);
          break;
      }
    }
    std::swap(now, next);
  }
  return false;
}

}  // namespace tenplex::deepspeed
