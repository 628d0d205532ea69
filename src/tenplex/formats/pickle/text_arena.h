// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// TextArena: texts packed one after another in blocks; none goes before all go.
//
// Resource with value-like behaviour: movable. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace tenplex {

class TextArena {
 public:
  /// A copy of the text, of the same size, which stays where it is as long as the arena, moved or not, is there.
  const char* add(std::string_view text) {
    if (text.size() > kBlockBytes / 16) return copy(text, new_block(text.size()));
    if (text.size() > left_) {
      next_ = new_block(kBlockBytes);
      left_ = kBlockBytes;
    }
    const char* stored = copy(text, next_);
    next_ += text.size();
    left_ -= text.size();
    return stored;
  }

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

  char* new_block(std::size_t size) { return blocks_.emplace_back(new char[size]).get(); }

  static const char* copy(std::string_view text, char* place) {
    std::copy(text.begin(), text.end(), place);
    return place;
  }

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;  // in the last block of kBlockBytes
  std::size_t left_ = 0;  // bytes, from next_ on
};

}  // namespace tenplex
