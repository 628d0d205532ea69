// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>

namespace tenplex {

std::string to_string(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }

Hasher::~Hasher() { XXH3_freeState(state_->xxh); }

void Hasher::add(std::int64_t value) {
  auto bits = static_cast<std::uint64_t>(value);
  std::array<std::uint8_t, 8> bytes{};
  for (auto& byte : bytes) {
    byte = static_cast<std::uint8_t>(bits);
    bits >>= 8;
  }
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  add_raw(as_bytes(text));
}

void Hasher::add_raw(ByteSpan bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }

Hash128 Hasher::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace tenplex
