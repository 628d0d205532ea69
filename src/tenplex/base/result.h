// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: a value or the Error that prevented it. The names are those of std::expected, which needs C++23.
//
//   Result<Box> parse(std::string_view text);
//   TENPLEX_ASSIGN_OR_RETURN(Box box, parse(text));   // box, or return the error
//   TENPLEX_TRY(check(box));                          // for Result<void>
//
// Threads: as any value.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "tenplex/base/check.h"
#include "tenplex/base/error.h"

namespace tenplex {

template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  /// Requires: has_value().
  T& value() & {
    TENPLEX_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    TENPLEX_CHECK(has_value());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    TENPLEX_CHECK(has_value());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Requires: !has_value().
  const Error& error() const& {
    TENPLEX_CHECK(!has_value());
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    TENPLEX_CHECK(!has_value());
    return std::move(*std::get_if<1>(&state_));
  }

  /// The same result, its error (if any) with one more context line.
  Result with_context(std::string line) && {
    if (has_value()) return std::move(*this);
    return std::move(*std::get_if<1>(&state_)).with_context(std::move(line));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }

  /// Requires: !has_value().
  const Error& error() const& {
    TENPLEX_CHECK(error_.has_value());
    return *error_;
  }
  Error&& error() && {
    TENPLEX_CHECK(error_.has_value());
    return std::move(*error_);
  }
  Result with_context(std::string line) && {
    if (has_value()) return {};
    return std::move(*error_).with_context(std::move(line));
  }

 private:
  std::optional<Error> error_;
};

}  // namespace tenplex

#define TENPLEX_CONCAT_INNER(a, b) a##b
#define TENPLEX_CONCAT(a, b) TENPLEX_CONCAT_INNER(a, b)

/// Evaluates a Result<void> expression; returns its error from the enclosing function if it has one.
#define TENPLEX_TRY(expr) \
  do { \
    if (auto tenplex_result = (expr); !tenplex_result.has_value()) return std::move(tenplex_result).error(); \
  } while (false)

/// Assigns the value of a Result expression to `lhs` (a declaration or an lvalue), or returns its error.
#define TENPLEX_ASSIGN_OR_RETURN(lhs, expr) \
  TENPLEX_ASSIGN_OR_RETURN_INNER(TENPLEX_CONCAT(tenplex_result_, __LINE__), lhs, expr)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration takes none.
#define TENPLEX_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr); \
  if (!result.has_value()) return std::move(result).error(); \
  lhs = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
