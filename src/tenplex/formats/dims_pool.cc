// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dims_pool.h"

#include <algorithm>

#include "tenplex/base/check.h"
#include "tenplex/base/hash_seed.h"

namespace tenplex {
namespace {

constexpr std::size_t kFirstSlots = 64;

std::uint64_t hash_of(std::span<const std::int64_t> values, std::uint64_t seed) {
  std::uint64_t hash = seed ^ values.size();
  for (const std::int64_t value : values) {
    hash ^= static_cast<std::uint64_t>(value);
    hash *= 0xff51afd7ed558ccdU;
    hash ^= hash >> 32;
  }
  return hash * 0xc4ceb9fe1a85ec53U;
}

}  // namespace

DimsPool::DimsPool() : seed_(hash_seed() | 1), starts_{0}, slots_(kFirstSlots, 0) {}

std::span<const std::int64_t> DimsPool::operator[](std::uint32_t index) const {
  return std::span(values_).subspan(starts_[index], starts_[index + 1] - starts_[index]);
}

std::size_t DimsPool::find_slot(std::span<const std::int64_t> values, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = (hash >> 20) & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0 || std::ranges::equal((*this)[slots_[slot] - 1], values)) return slot;
  }
}

void DimsPool::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (std::uint32_t i = 0; i < size(); ++i) slots_[find_slot((*this)[i], hash_of((*this)[i], seed_))] = i + 1;
}

std::uint32_t DimsPool::intern(std::span<const std::int64_t> values) {
  std::size_t slot = find_slot(values, hash_of(values, seed_));
  if (slots_[slot] != 0) return slots_[slot] - 1;
  TENPLEX_CHECK(values_.size() + values.size() < 0xffffffffU);
  values_.insert(values_.end(), values.begin(), values.end());
  starts_.push_back(static_cast<std::uint32_t>(values_.size()));
  const auto index = static_cast<std::uint32_t>(size() - 1);
  slots_[slot] = index + 1;
  if (size() * 4 > slots_.size() * 3) grow();
  return index;
}

}  // namespace tenplex
