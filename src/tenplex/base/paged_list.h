// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PagedList<T>: a list that grows at its end in pages of 16 KiB, so that growing copies nothing, addresses stay, and no
// more than a page is unused.
//
// Resource with value-like behaviour: movable. Threads: const calls are safe together.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace tenplex {

template <typename T>
class PagedList {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Requires: index < size().
  T& operator[](std::size_t index) { return pages_[index / kPageItems][index % kPageItems]; }
  const T& operator[](std::size_t index) const { return pages_[index / kPageItems][index % kPageItems]; }

  T& push_back(T value) {
    const std::size_t page = size_ / kPageItems;
    if (page == pages_.size()) pages_.emplace_back().reserve(kPageItems);
    ++size_;
    return pages_[page].emplace_back(std::move(value));
  }

  /// Drops what comes after the first `size` items. Requires: size <= size().
  void truncate(std::size_t size) {
    while (size_ > size) {
      const std::size_t page = (size_ - 1) / kPageItems;
      const std::size_t first = std::max(page * kPageItems, size);
      pages_[page].erase(pages_[page].begin() + static_cast<std::ptrdiff_t>(first - page * kPageItems),
                         pages_[page].end());
      size_ = first;
    }
    // One empty page stays, so that a list that shrinks and grows by an item does not allocate each time.
    pages_.resize(std::min(pages_.size(), size_ / kPageItems + 2));
  }

 private:
  static constexpr std::size_t kPageItems = std::bit_floor(std::max<std::size_t>((16 << 10) / sizeof(T), 1));

  std::vector<std::vector<T>> pages_;
  std::size_t size_ = 0;
};

}  // namespace tenplex
