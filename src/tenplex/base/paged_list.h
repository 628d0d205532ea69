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
    if (size_ % kPageItems == 0) pages_.emplace_back().reserve(kPageItems);
    ++size_;
    return pages_.back().emplace_back(std::move(value));
  }

 private:
  static constexpr std::size_t kPageItems = std::bit_floor(std::max<std::size_t>((16 << 10) / sizeof(T), 1));

  std::vector<std::vector<T>> pages_;
  std::size_t size_ = 0;
};

}  // namespace tenplex
