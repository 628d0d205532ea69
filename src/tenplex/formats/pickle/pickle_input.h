// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PickleInput: the bytes of a pickle, from memory or from a file range through a window of 256 KiB.
//
// Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tenplex/base/bytes.h"
#include "tenplex/base/result.h"
#include "tenplex/io/byte_source.h"

namespace tenplex {

class PickleInput {
 public:
  explicit PickleInput(ByteSpan bytes) : window_(as_text(bytes)), size_(static_cast<std::int64_t>(bytes.size())) {}
  PickleInput(const ByteSource& source, std::int64_t offset, std::int64_t size)
      : source_(&source), offset_(offset), size_(size) {}
  PickleInput(const PickleInput&) = delete;
  PickleInput& operator=(const PickleInput&) = delete;

  /// Bytes taken so far.
  std::int64_t position() const { return window_begin_ + static_cast<std::int64_t>(cursor_); }
  std::int64_t remaining() const { return size_ - position(); }

  /// The next byte. Errors: corrupt at the end, io.
  Result<char> take_byte() {
    if (available() == 0) TENPLEX_TRY(refill());
    return char{window_[cursor_++]};
  }
  /// The next `count` bytes, valid until the next call. Nothing is allocated when they are not there.
  /// Errors: corrupt at the end, io.
  Result<std::string_view> take(std::uint64_t count) {
    if (available() < count) return take_beyond(count);
    cursor_ += count;
    return window_.substr(cursor_ - count, count);
  }
  /// The same as a string of its own. Errors: as take().
  Result<std::string> take_string(std::uint64_t count);
  /// Bytes up to the next newline, which is taken too. Errors: corrupt at the end, io.
  Result<std::string> take_line();
  /// Little-endian unsigned integer of `bytes` (1 to 8) bytes. Errors: corrupt at the end, io.
  Result<std::uint64_t> take_unsigned(std::size_t bytes) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view raw, take(bytes));
    std::uint64_t value = 0;
    for (std::size_t byte = bytes; byte-- > 0;) value = (value << 8) | static_cast<unsigned char>(raw[byte]);
    return value;
  }

 private:
  std::size_t available() const { return window_.size() - cursor_; }
  Result<void> refill();
  Result<std::string_view> take_beyond(std::uint64_t count);

  const ByteSource* source_ = nullptr;
  std::int64_t offset_ = 0;
  std::string buffer_;
  std::string large_;  // what take() gave last, if it was longer than a window
  std::string_view window_;
  std::int64_t window_begin_ = 0;
  std::size_t cursor_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace tenplex
