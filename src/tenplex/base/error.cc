// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/error.h"

#include <cerrno>
#include <ranges>
#include <system_error>
#include <utility>

namespace tenplex {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kAlreadyExists:
      return "already_exists";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kOutOfRange:
      return "out_of_range";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

Error::Error(ErrorCode code, std::string message)
    : state_(std::make_unique<State>(State{code, std::move(message), {}})) {}

Error::Error(const Error& other) : state_(std::make_unique<State>(*other.state_)) {}

Error& Error::operator=(const Error& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}

bool Error::retryable() const {
  return code() == ErrorCode::kUnavailable || code() == ErrorCode::kDeadlineExceeded ||
         code() == ErrorCode::kResourceExhausted;
}

Error&& Error::with_context(std::string line) && {
  state_->context.push_back(std::move(line));
  return std::move(*this);
}

std::string Error::to_string() const {
  std::string text;
  for (const std::string& line : std::views::reverse(state_->context)) {
    text += line;
    text += ": ";
  }
  return text + state_->message;
}

Error invalid_argument(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }
Error not_found(std::string message) { return {ErrorCode::kNotFound, std::move(message)}; }
Error already_exists(std::string message) { return {ErrorCode::kAlreadyExists, std::move(message)}; }
Error corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }
Error unsupported(std::string message) { return {ErrorCode::kUnsupported, std::move(message)}; }
Error out_of_range(std::string message) { return {ErrorCode::kOutOfRange, std::move(message)}; }
Error resource_exhausted(std::string message) { return {ErrorCode::kResourceExhausted, std::move(message)}; }
Error cancelled(std::string message) { return {ErrorCode::kCancelled, std::move(message)}; }
Error io_error(std::string message) { return {ErrorCode::kIo, std::move(message)}; }
Error internal_error(std::string message) { return {ErrorCode::kInternal, std::move(message)}; }

Error errno_error(std::string what, int error_number) {
  auto code = ErrorCode::kIo;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::kNotFound;
  if (error_number == EEXIST || error_number == ENOTEMPTY) code = ErrorCode::kAlreadyExists;
  if (error_number == ENOSPC || error_number == ENOMEM || error_number == EDQUOT || error_number == EMFILE)
    code = ErrorCode::kResourceExhausted;
  return {code, std::move(what) + ": " + std::generic_category().message(error_number)};
}

}  // namespace tenplex
