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

Result<std::string_view> PickleInput::take(std::size_t count) {
  while (available() < count) TENPLEX_TRY(refill());
  const std::string_view bytes = window_.substr(cursor_, count);
  cursor_ += count;
  return bytes;
}

Result<std::string> PickleInput::take_string(std::uint64_t count) {
  if (count > static_cast<std::uint64_t>(remaining())) return truncated(size_);
  std::string bytes(count, '\0');
  const std::size_t here = std::min<std::size_t>(count, available());
  window_.copy(bytes.data(), here, cursor_);
  cursor_ += here;
  if (here == count) return bytes;
  TENPLEX_TRY(source_->read_at(offset_ + position(), std::as_writable_bytes(std::span(bytes).subspan(here))));
  window_begin_ = position() + static_cast<std::int64_t>(count - here);
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

Result<std::uint64_t> PickleInput::take_unsigned(int bytes) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view raw, take(static_cast<std::size_t>(bytes)));
  std::uint64_t value = 0;
  for (std::size_t byte = raw.size(); byte-- > 0;) value = (value << 8) | static_cast<unsigned char>(raw[byte]);
  return value;
}

}  // namespace tenplex
