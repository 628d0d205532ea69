// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/memory_budget.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "tenplex/base/checked.h"

namespace tenplex {

PageBuffer::~PageBuffer() {
  if (budget_ == nullptr || bytes_.empty()) return;
  ::munmap(bytes_.data(), bytes_.size());
  budget_->release(size());
}

bool MemoryBudget::reserve(std::int64_t size) {
  std::int64_t held = held_.load(std::memory_order_relaxed);
  do {
    if (size > limit_ - held) return false;
  } while (!held_.compare_exchange_weak(held, held + size, std::memory_order_relaxed));
  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < held + size && !peak_.compare_exchange_weak(peak, held + size, std::memory_order_relaxed)) {
  }
  return true;
}

Result<PageBuffer> MemoryBudget::take(std::int64_t size) {
  if (size == 0) return PageBuffer();
  const auto rounded = checked_mul(ceil_div(size, kPageBytes), kPageBytes);
  if (!rounded || !reserve(*rounded)) {
    return resource_exhausted(fmt::format("memory budget of {} is used up: {} held, {} more wanted",
                                          format_bytes(limit_), format_bytes(held()), format_bytes(size)));
  }
  const auto length = static_cast<std::size_t>(*rounded);
  void* address = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    release(*rounded);
    return errno_error(fmt::format("cannot get {} of memory", format_bytes(size)), error);
  }
  return PageBuffer(this, {static_cast<std::byte*>(address), length});
}

}  // namespace tenplex
