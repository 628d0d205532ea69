// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/slots.h"

#include <algorithm>

namespace tenplex {
namespace {

// A slot below this would read and write in crumbs; rather fewer slots.
constexpr std::int64_t kMinSlotBytes = 512 << 10;

// Side buffers beyond this would only leave the cache.
constexpr std::int64_t kMaxSideBytes = 1 << 20;

std::int64_t whole_pages(std::int64_t bytes) { return bytes / kPageBytes * kPageBytes; }

}  // namespace

Result<std::unique_ptr<Slots>> Slots::allocate(MemoryBudget& budget, const SlotNeeds& needs) {
  std::unique_ptr<Slots> slots(new Slots());
  const std::int64_t count = std::clamp<std::int64_t>(budget.limit() / kMinSlotBytes, 1, std::max(1, needs.threads));
  const std::int64_t slot_bytes = whole_pages(budget.limit() / count);
  const std::int64_t side = whole_pages(std::min(kMaxSideBytes, slot_bytes / 6));
  const std::int64_t cast = needs.cast ? side : 0;
  const std::int64_t compare = needs.compare ? side : 0;
  slots->window_bytes_ = slot_bytes - side - cast - compare;
  for (std::int64_t i = 0; i < count; ++i) {
    TENPLEX_ASSIGN_OR_RETURN(PageBuffer buffer, budget.take(slot_bytes));
    MutableByteSpan rest = buffer.bytes();
    const auto cut = [&](std::int64_t bytes) {
      const MutableByteSpan part = rest.first(static_cast<std::size_t>(bytes));
      rest = rest.subspan(static_cast<std::size_t>(bytes));
      return part;
    };
    Slot slot;
    slot.window = cut(slots->window_bytes_);
    slot.scratch = cut(side);
    slot.cast = cut(cast);
    slot.compare = cut(compare);
    slots->free_.lock()->push_back(slots->slots_.size());
    slots->slots_.push_back(slot);
    slots->buffers_.push_back(std::move(buffer));
  }
  return slots;
}

std::size_t Slots::acquire() {
  auto free = free_.lock();
  free.wait(released_, [&] { return !free->empty(); });
  const std::size_t index = free->back();  // the one used last: its memory is in a cache
  free->pop_back();
  return index;
}

void Slots::release(std::size_t index) {
  free_.lock()->push_back(index);
  released_.notify_one();
}

}  // namespace tenplex
