// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// 128-bit non-cryptographic hashes (XXH3) for identities: collections, rosters, plans. Not for hostile input.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tenplex/base/bytes.h"

namespace tenplex {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

/// 32 lower-case hexadecimal digits, high half first.
std::string to_string(const Hash128& hash);

/// Feeds values one after another; every variable-length value is preceded by its length, so that "ab","c" and "a","bc"
/// differ. Resource.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::int64_t value);
  void add(std::string_view text);
  void add_raw(ByteSpan bytes);
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenplex
