// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/hash_seed.h"

#include <random>

namespace tenplex {

std::uint64_t hash_seed() {
  static const std::uint64_t kSeed = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  return kSeed;
}

}  // namespace tenplex
