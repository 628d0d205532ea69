// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>

#include "tenplex/ptc/digest_lanes.h"

namespace tenplex::internal {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian in memory");

template <typename Lane>
Digest block(const std::byte* lanes, std::size_t position, std::size_t count) {
  const std::uint64_t* first_weights = kLaneWeights[0].whole.data() + position;
  const std::uint64_t* second_weights = kLaneWeights[1].whole.data() + position;
  Digest sum;
  for (std::size_t index = 0; index < count; ++index) {
    Lane lane = 0;
    std::memcpy(&lane, lanes + index * sizeof(Lane), sizeof(Lane));
    sum.first += lane * first_weights[index];
    sum.second += lane * second_weights[index];
  }
  return sum;
}

constexpr DigestPath kPath = {"portable", block<std::uint8_t>, block<std::uint16_t>, block<std::uint32_t>};

}  // namespace

const DigestPath& digest_path_portable() { return kPath; }

}  // namespace tenplex::internal
