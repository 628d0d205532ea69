// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The seed of hash tables whose keys come from files, so that no file can be made of keys that collide.
//
// Threads: safe together.
#pragma once

#include <cstdint>

namespace tenplex {

/// A random number, the same in the whole run. Cost: the first call asks the operating system.
std::uint64_t hash_seed();

}  // namespace tenplex
