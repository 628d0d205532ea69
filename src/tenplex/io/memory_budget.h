// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// MemoryBudget: a counted amount of memory for tensor data, handed out as page-aligned buffers.
//
//   MemoryBudget budget(64 << 20);
//   TENPLEX_ASSIGN_OR_RETURN(PageBuffer buffer, budget.take(1 << 20));   // given back when `buffer` goes
//
// The sum of all buffers never exceeds the limit; pages take real memory from their first use on and keep it, so a
// buffer is taken once and used again. Resource; must outlive its buffers. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "tenplex/base/bytes.h"
#include "tenplex/base/result.h"

namespace tenplex {

inline constexpr std::int64_t kPageBytes = 4096;

class MemoryBudget;

/// Memory that counts against a budget. Movable resource; an empty one holds nothing.
class PageBuffer {
 public:
  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();

  std::byte* data() const { return bytes_.data(); }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  MutableByteSpan bytes() const { return bytes_; }

 private:
  friend class MemoryBudget;
  PageBuffer(MemoryBudget* budget, MutableByteSpan bytes) : budget_(budget), bytes_(bytes) {}

  MemoryBudget* budget_ = nullptr;
  MutableByteSpan bytes_;
};

class MemoryBudget {
 public:
  explicit MemoryBudget(std::int64_t limit_bytes) : limit_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// A buffer of `size` bytes, rounded up to whole pages, all zero. Requires: size >= 0.
  /// Errors: resource_exhausted when the limit or the machine's memory does not allow it.
  Result<PageBuffer> take(std::int64_t size);

  std::int64_t limit() const { return limit_; }
  std::int64_t held() const { return held_.load(std::memory_order_relaxed); }
  /// The most that was held at one time.
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  friend class PageBuffer;
  bool reserve(std::int64_t size);
  void release(std::int64_t size) { held_.fetch_sub(size, std::memory_order_relaxed); }

  const std::int64_t limit_;
  std::atomic<std::int64_t> held_ = 0;
  std::atomic<std::int64_t> peak_ = 0;
};

}  // namespace tenplex
