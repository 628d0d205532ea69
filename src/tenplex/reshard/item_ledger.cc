// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/item_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tenplex/base/crc32.h"

namespace tenplex {
namespace {

constexpr std::int64_t kSmallGapBytes = 4096;

}  // namespace

ItemLedger::Stripe& ItemLedger::stripe_of(const Key& key) {
  const auto mixed =
      (static_cast<std::uint64_t>(key.second) * 31 + static_cast<std::uint64_t>(key.first)) * 0x9e3779b97f4a7c15ULL;
  return stripes_[mixed >> 58];
}

Result<void> ItemLedger::check(std::int32_t file, const CheckedRange& item, std::uint32_t crc, TensorId tensor) {
  if (crc != item.crc32) {
    const CheckpointInfo& info = reader_.info();
    return corrupt(fmt::format("file '{}', tensor '{}': CRC-32 of the {} bytes at {}: expected {:08x}, found {:08x}",
                               info.files[static_cast<std::size_t>(file)], info.tensors[tensor.index()].name, item.size,
                               item.begin, item.crc32, crc));
  }
  ++checked_;
  return {};
}

Result<void> ItemLedger::add(std::int32_t file, const CheckedRange& item, std::int64_t begin, ByteSpan bytes,
                             TensorId tensor) {
  // In coordinates of the item.
  const std::int64_t first = std::max<std::int64_t>(0, begin - item.begin);
  const std::int64_t end = std::min(item.size, begin + static_cast<std::int64_t>(bytes.size()) - item.begin);
  if (first >= end) return {};
  const Key key{file, item.begin};
  Stripe& stripe = stripe_of(key);
  std::vector<std::pair<std::int64_t, std::int64_t>> news;
  {
    const std::lock_guard lock(stripe.mutex);
    if (stripe.done.contains(key)) return {};
    const auto known = stripe.items.find(key);
    if (known == stripe.items.end()) {
      news.emplace_back(first, end);
    } else {
      news = known->second.parts.gaps(first, end);
    }
  }
  for (auto& [from, to] : news) {
    const auto offset = static_cast<std::size_t>(item.begin + from - begin);
    const std::uint32_t crc = crc32(0, bytes.subspan(offset, static_cast<std::size_t>(to - from)));
    std::uint32_t whole = crc;
    {
      const std::lock_guard lock(stripe.mutex);
      if (stripe.done.contains(key)) return {};
      if (from != 0 || to != item.size) {
        Item& entry = stripe.items.try_emplace(key, Item{item, tensor, {}}).first->second;
        entry.parts.add(from, to, crc);
        if (!entry.parts.covers(item.size)) continue;
        whole = entry.parts.crc();
        stripe.items.erase(key);
      }
      stripe.done.insert(key);
    }
    return check(file, item, whole, tensor);
  }
  return {};
}

Result<void> ItemLedger::complete_small_gaps(std::int64_t* bytes_read) {
  struct Gap {
    std::int32_t file;
    Item item;
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Gap> gaps;
  for (Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    for (const auto& [key, item] : stripe.items) {
      const auto missing = item.parts.gaps(0, item.range.size);
      std::int64_t bytes = 0;
      for (const auto& [from, to] : missing) bytes += to - from;
      if (bytes > kSmallGapBytes) continue;
      for (const auto& [from, to] : missing) gaps.push_back({key.first, item, from, to});
    }
  }
  std::vector<std::byte> buffer(kSmallGapBytes);
  for (const Gap& gap : gaps) {
    TENPLEX_ASSIGN_OR_RETURN(const ByteSource* source, reader_.file(gap.file));
    const MutableByteSpan bytes = std::span(buffer).first(static_cast<std::size_t>(gap.end - gap.begin));
    const std::int64_t begin = gap.item.range.begin + gap.begin;
    TENPLEX_TRY(source->read_at(begin, bytes));
    *bytes_read += gap.end - gap.begin;
    TENPLEX_TRY(add(gap.file, gap.item.range, begin, bytes, gap.item.tensor));
  }
  return {};
}

std::int64_t ItemLedger::unchecked() const {
  std::int64_t count = 0;
  for (const Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    count += static_cast<std::int64_t>(stripe.items.size());
  }
  return count;
}

}  // namespace tenplex
