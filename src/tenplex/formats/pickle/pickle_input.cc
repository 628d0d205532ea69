// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_input.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {
namespace {

constexpr std::int64_t kWindowBytes = 256 << 10;

Error truncated(std::int64_t size) { return corrupt(fmt::format("the pickle ends too early, after {} bytes", size)); }

}  // namespace

// Drops what was taken and appends the next bytes of the source.
Result<void> PickleInput::refill() {
  const std::int64_t known = window_begin_ + static_cast<std::int64_t>(window_.size());
  const std::int64_t more = std::min(kWindowBytes, size_ - known);
  if (source_ == nullptr || more <= 0) return truncated(size_);
  std::string next(available() + static_cast<std::size_t>(more), '\0');
  std::copy(window_.begin() + static_cast<std::ptrdiff_t>(cursor_), window_.end(), next.begin());
  TENPLEX_TRY(source_->read_at(
      offset_ + known, std::as_writable_bytes(std::span(next.data() + available(), static_cast<std::size_t>(more)))));
  window_begin_ = position();
  cursor_ = 0;
  buffer_ = std::move(next);
  window_ = buffer_;
  return {};
}

// More bytes than the window has left.
Result<std::string_view> PickleInput::take_beyond(std::uint64_t count) {
  if (count > static_cast<std::uint64_t>(remaining())) return truncated(size_);
  if (count <= static_cast<std::uint64_t>(kWindowBytes)) {
    while (available() < count) TENPLEX_TRY(refill());
    return take(count);
  }
  TENPLEX_ASSIGN_OR_RETURN(large_, take_string(count));
  return std::string_view(large_);
}

Result<std::string> PickleInput::take_string(std::uint64_t count) {
  if (available() >= count || count <= static_cast<std::uint64_t>(kWindowBytes)) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view bytes, take(count));
    return std::string(bytes);
  }
  if (count > static_cast<std::uint64_t>(remaining())) return truncated(size_);
  std::string bytes(count, '\0');
  const std::size_t here = available();
  window_.copy(bytes.data(), here, cursor_);
  TENPLEX_TRY(source_->read_at(offset_ + position() + static_cast<std::int64_t>(here),
                               std::as_writable_bytes(std::span(bytes).subspan(here))));
  window_begin_ = position() + static_cast<std::int64_t>(count);
  window_ = {};
  cursor_ = 0;
  return bytes;
}

Result<std::string> PickleInput::take_line() {
  std::string line;
  for (;;) {
    const std::string_view rest = window_.substr(cursor_);
    const std::size_t end = rest.find('\n');
    line.append(rest.substr(0, end));
    if (end != std::string_view::npos) {
      cursor_ += end + 1;
      return line;
    }
    cursor_ = window_.size();
    TENPLEX_TRY(refill());
  }
}

}  // namespace tenplex
