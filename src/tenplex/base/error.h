// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Error: why an operation failed, in a form that a program can act on and a person can read.
//
//   code     one of a closed set, named for what the caller can do next
//   message  what was wrong: the thing, what was expected, what was found
//   context  one line per layer that the error passed through, innermost first
//
// Value type. Threads: as any value.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenplex {

enum class ErrorCode : unsigned char {
  kInvalidArgument,    ///< the request itself is wrong; change it
  kNotFound,           ///< the named thing is not there
  kAlreadyExists,      ///< the name is taken; choose another or ask to overwrite
  kCorrupt,            ///< stored or received bytes are damaged; use another copy
  kUnsupported,        ///< legal, but this program cannot do it
  kOutOfRange,         ///< an index or a size lies outside its limits
  kResourceExhausted,  ///< memory, disk or a limit is used up; free some and retry
  kUnavailable,        ///< a peer cannot be reached now; retry
  kDeadlineExceeded,   ///< no progress within the time allowed; retry
  kCancelled,          ///< the caller asked to stop
  kIo,                 ///< the operating system refused an operation on a file or socket
  kInternal,           ///< a fault of this program
};

/// Stable lower-case word for `code`, as printed and as used in JSON ("invalid_argument").
std::string_view to_string(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message);
  Error(const Error& other);
  Error& operator=(const Error& other);
  Error(Error&&) noexcept = default;
  Error& operator=(Error&&) noexcept = default;
  ~Error() = default;

  ErrorCode code() const { return state_->code; }
  const std::string& message() const { return state_->message; }
  const std::vector<std::string>& context() const { return state_->context; }

  /// True if the same call may succeed later without a change by the caller.
  bool retryable() const;

  /// Adds one line that names the object being worked on ("tensor 'wte.weight' shard 3/8").
  Error&& with_context(std::string line) &&;

  /// "shard 3/8: tensor 'x': shape mismatch: …", outermost context first.
  std::string to_string() const;

 private:
  struct State {
    ErrorCode code;
    std::string message;
    std::vector<std::string> context;
  };
  std::unique_ptr<State> state_;
};

// One maker per code that code outside base/ creates; the message follows docs/architecture.md, "Errors".
Error invalid_argument(std::string message);
Error not_found(std::string message);
Error already_exists(std::string message);
Error corrupt(std::string message);
Error unsupported(std::string message);
Error out_of_range(std::string message);
Error resource_exhausted(std::string message);
Error cancelled(std::string message);
Error io_error(std::string message);
Error internal_error(std::string message);

/// An `io` error (or `not_found`, `already_exists`, `resource_exhausted` where errno says so) with errno's text
/// appended.
Error errno_error(std::string what, int error_number);

}  // namespace tenplex
