// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Slots: the engine's whole tensor memory, one part per thread, taken from the budget once and used again and again.
//
//   slot = [ window: what is being put together | scratch: reads on their way | cast | compare ]
//
// With little memory there are fewer slots than threads; a thread then waits for one.
// Resource. Threads: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <vector>

#include "tenplex/base/guarded.h"
#include "tenplex/io/memory_budget.h"

namespace tenplex {

struct Slot {
  MutableByteSpan window;
  MutableByteSpan scratch;
  MutableByteSpan cast;     ///< empty unless asked for
  MutableByteSpan compare;  ///< empty unless asked for
};

struct SlotNeeds {
  int threads = 1;
  bool cast = false;
  bool compare = false;
};

class Slots {
 public:
  /// Takes the whole of `budget`. Errors: resource_exhausted if the machine lacks the memory.
  static Result<std::unique_ptr<Slots>> allocate(MemoryBudget& budget, const SlotNeeds& needs);

  std::int64_t window_bytes() const { return window_bytes_; }

  /// A slot for the life of the lease. Waits while all are in use.
  class Lease {
   public:
    explicit Lease(Slots& slots) : slots_(slots), index_(slots.acquire()) {}
    ~Lease() { slots_.release(index_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    const Slot& operator*() const { return slots_.slots_[index_]; }
    const Slot* operator->() const { return &slots_.slots_[index_]; }

   private:
    Slots& slots_;
    std::size_t index_;
  };

 private:
  Slots() = default;
  std::size_t acquire();
  void release(std::size_t index);

  std::int64_t window_bytes_ = 0;
  std::vector<PageBuffer> buffers_;
  std::vector<Slot> slots_;
  Guarded<std::vector<std::size_t>> free_;
  std::condition_variable_any released_;
};

}  // namespace tenplex
