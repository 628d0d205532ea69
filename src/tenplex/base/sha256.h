// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 of bytes that come in parts, by OpenSSL, which uses what the processor has for it.
//
//   Sha256 sum; sum.add(as_bytes("abc")); sum.finish()   "ba7816bf…"
//
// Resource. Threads: none. Source: FIPS 180-4.
#pragma once

#include <memory>
#include <string>

#include "tenplex/base/bytes.h"

namespace tenplex {

/// Hexadecimal digits of a sum.
inline constexpr std::size_t kSha256Digits = 64;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(ByteSpan bytes);
  /// Of all that was added, in lower-case hexadecimal digits. Called once.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace tenplex
