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

  /// The next `count` bytes, valid until the next call. Requires: count <= 64. Errors: corrupt at the end, io.
  Result<std::string_view> take(std::size_t count);
  /// The next `count` bytes. Nothing is allocated when they are not there. Errors: corrupt, io.
  Result<std::string> take_string(std::uint64_t count);
  /// Bytes up to the next newline, which is taken too. Errors: corrupt at the end, io.
  Result<std::string> take_line();
  /// Little-endian unsigned integer of `bytes` (1 to 8) bytes.
  Result<std::uint64_t> take_unsigned(int bytes);

 private:
  std::size_t available() const { return window_.size() - cursor_; }
  Result<void> refill();

  const ByteSource* source_ = nullptr;
  std::int64_t offset_ = 0;
  std::string buffer_;
  std::string_view window_;
  std::int64_t window_begin_ = 0;
  std::size_t cursor_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace tenplex
