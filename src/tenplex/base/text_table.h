// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// TextTable: which number a text has, where the caller keeps the texts themselves. About 14 bytes an entry.
//
//   slots   … │ hash, number + 1 │ 0, 0 = free │ …      open addressing, a power of two, at most three quarters full
//
// Resource with value-like behaviour: movable. Threads: const calls are safe together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tenplex/base/hash_seed.h"

namespace tenplex {

class TextTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  /// Of a text, for the functions below.
  std::uint32_t hash(std::string_view text) const {
    std::uint64_t hash = seed_ ^ text.size();
    for (; text.size() >= 8; text.remove_prefix(8)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), 8);
      hash = mix(hash ^ word) + seed_;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), text.size());
    return static_cast<std::uint32_t>(mix(hash ^ word));
  }

  /// The number whose text is_text(number) accepts, or kNone. Requires: `hash` is that of the text.
  template <typename IsText>
  std::uint32_t find(std::uint32_t hash, IsText&& is_text) const {
    if (slots_.empty()) return kNone;
    for (std::size_t place = hash & mask();; place = (place + 1) & mask()) {
      const Slot& slot = slots_[place];
      if (slot.entry == 0) return kNone;
      if (slot.hash == hash && is_text(slot.entry - 1)) return slot.entry - 1;
    }
  }

  /// Requires: `hash` is that of a text that is not in the table; number < kNone.
  void add(std::uint32_t hash, std::uint32_t number) {
    if (4 * ++size_ > 3 * slots_.size()) grow();
    put({hash, number + 1});
  }

 private:
  static constexpr std::size_t kFirstSlots = 64;

  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t entry = 0;
  };

  static std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93;
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93;
    return value ^ (value >> 32);
  }

  std::size_t mask() const { return slots_.size() - 1; }

  void put(const Slot& slot) {
    std::size_t place = slot.hash & mask();
    while (slots_[place].entry != 0) place = (place + 1) & mask();
    slots_[place] = slot;
  }

  void grow() {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.empty() ? kFirstSlots : old.size() * 2, {});
    for (const Slot& slot : old)
      if (slot.entry != 0) put(slot);
  }

  std::uint64_t seed_ = hash_seed();
  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace tenplex
