// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "tenplex/base/check.h"

namespace tenplex {

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  TENPLEX_CHECK(context_->digest != nullptr);
  TENPLEX_CHECK(EVP_DigestInit_ex(context_->digest.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(ByteSpan bytes) {
  TENPLEX_CHECK(EVP_DigestUpdate(context_->digest.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::finish() {
  std::array<unsigned char, kSha256Digits / 2> sum{};
  TENPLEX_CHECK(EVP_DigestFinal_ex(context_->digest.get(), sum.data(), nullptr) == 1);
  return fmt::format("{:02x}", fmt::join(sum, ""));
}

}  // namespace tenplex
