// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/check.h"
#include "tenplex/ptc/digest_lanes.h"

namespace tenplex {
namespace {

// Fixed for ever by docs/formats/digest.md: the fractional bits of the square roots of 2, 3, 5, 7, 11 and 13.
struct Seeds {
  std::uint64_t block;   ///< of u
  std::uint64_t lane;    ///< of t
  std::uint64_t header;  ///< of H
};
constexpr Seeds kFirstSeeds = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b};
constexpr Seeds kSecondSeeds = {0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f};
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

constexpr std::uint64_t odd_mixing(std::uint64_t seed, std::uint64_t index) {
  return mix(seed + (index + 1) * kGolden) | 1;
}

constexpr internal::LaneWeights make_weights(std::uint64_t seed) {
  internal::LaneWeights weights;
  for (std::size_t k = 0; k < internal::kLanesPerBlock; ++k) {
    const std::uint64_t weight = odd_mixing(seed, k);
    weights.whole[k] = weight;
    weights.low[k] = static_cast<std::uint32_t>(weight);
    weights.high[k] = static_cast<std::uint32_t>(weight >> 32);
    weights.sum_before[k + 1] = weights.sum_before[k] + weight;
  }
  return weights;
}

std::uint64_t header_mixing(std::uint64_t state, DType dtype, const Dims& shape) {
  const auto absorb = [&](std::int64_t value) { state = mix((state ^ static_cast<std::uint64_t>(value)) + kGolden); };
  absorb(static_cast<std::int64_t>(dtype));
  absorb(shape.rank());
  for (const std::int64_t length : shape) absorb(length);
  return state;
}

}  // namespace

namespace internal {

constexpr std::array<LaneWeights, 2> kLaneWeights = {make_weights(kFirstSeeds.lane), make_weights(kSecondSeeds.lane)};

const DigestPath& best_digest_path() {
  static const DigestPath& best = digest_path_avx512() != nullptr ? *digest_path_avx512()
                                  : digest_path_avx2() != nullptr ? *digest_path_avx2()
                                                                  : digest_path_portable();
  return best;
}

namespace {

std::size_t lane_bytes(DType dtype) {
  if (dtype == DType::kComplex32) return 2;
  return std::clamp<std::size_t>(static_cast<std::size_t>(bit_width(dtype)) / 8, 1, 4);
}

BlockFunction block_function(const DigestPath& path, std::size_t bytes_per_lane) {
  if (bytes_per_lane == 4) return path.lanes_of_4_bytes;
  return bytes_per_lane == 2 ? path.lanes_of_2_bytes : path.lanes_of_1_byte;
}

/// Σ (lane_i + 1) · w(first_lane + i).
Digest sum_lanes(BlockFunction block, std::size_t bytes_per_lane, std::uint64_t first_lane, const std::byte* lanes,
                 std::size_t count) {
  Digest sum;
  while (count != 0) {
    const std::uint64_t index = first_lane / kLanesPerBlock;
    const std::size_t begin = first_lane % kLanesPerBlock;
    const std::size_t used = std::min(count, kLanesPerBlock - begin);
    const Digest products = block(lanes, begin, used);
    const auto ones = [&](const LaneWeights& weights) {
      return weights.sum_before[begin + used] - weights.sum_before[begin];
    };
    sum.first += odd_mixing(kFirstSeeds.block, index) * (products.first + ones(kLaneWeights[0]));
    sum.second += odd_mixing(kSecondSeeds.block, index) * (products.second + ones(kLaneWeights[1]));
    first_lane += used;
    lanes += used * bytes_per_lane;
    count -= used;
  }
  return sum;
}

/// One byte per code of 4 or 6 bits. Codes follow each other from the low bits of the first byte upwards.
void unpack_codes(int bits, const std::byte* packed, std::size_t codes, std::byte* lanes) {
  if (bits == 4) {
    for (std::size_t at = 0; at < codes / 2; ++at) {
      lanes[2 * at] = packed[at] & std::byte{0xF};
      lanes[2 * at + 1] = packed[at] >> 4;
    }
    return;
  }
  for (std::size_t group = 0; group < codes / 4; ++group) {
    const std::byte* from = packed + 3 * group;
    const auto word = std::to_integer<std::uint32_t>(from[0]) | std::to_integer<std::uint32_t>(from[1]) << 8 |
                      std::to_integer<std::uint32_t>(from[2]) << 16;
    for (std::size_t code = 0; code < 4; ++code)
      lanes[4 * group + code] = static_cast<std::byte>((word >> (6 * code)) & 0x3F);
  }
}

Digest sum_packed_codes(const DigestPath& path, int bits, std::int64_t first_element, ByteSpan bytes) {
  constexpr std::size_t kCodesAtOnce = kLanesPerBlock;  // whole bytes at 4 and at 6 bits
  std::array<std::byte, kCodesAtOnce> lanes;
  Digest sum;
  auto first_lane = static_cast<std::uint64_t>(first_element);
  while (!bytes.empty()) {
    const std::size_t used = std::min(bytes.size(), kCodesAtOnce * static_cast<std::size_t>(bits) / 8);
    const std::size_t codes = used * 8 / static_cast<std::size_t>(bits);
    unpack_codes(bits, bytes.data(), codes, lanes.data());
    sum += sum_lanes(path.lanes_of_1_byte, 1, first_lane, lanes.data(), codes);
    first_lane += codes;
    bytes = bytes.subspan(used);
  }
  return sum;
}

}  // namespace

Digest digest_of_run(const DigestPath& path, DType dtype, std::int64_t first_element, ByteSpan bytes) {
  if (is_sub_byte(dtype)) return sum_packed_codes(path, bit_width(dtype), first_element, bytes);
  const std::size_t bytes_per_lane = lane_bytes(dtype);
  const auto lanes_per_element = static_cast<std::uint64_t>(size_bytes(dtype)) / bytes_per_lane;
  return sum_lanes(block_function(path, bytes_per_lane), bytes_per_lane,
                   static_cast<std::uint64_t>(first_element) * lanes_per_element, bytes.data(),
                   bytes.size() / bytes_per_lane);
}

}  // namespace internal

std::string to_string(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest.first, digest.second); }

Digest digest_of_header(DType dtype, const Dims& shape) {
  return {header_mixing(kFirstSeeds.header, dtype, shape), header_mixing(kSecondSeeds.header, dtype, shape)};
}

Digest digest_of_run(DType dtype, std::int64_t first_element, ByteSpan bytes) {
  return internal::digest_of_run(internal::best_digest_path(), dtype, first_element, bytes);
}

Digest digest_of_piece(const TensorInfo& tensor, const Piece& piece, const std::byte* local) {
  return internal::digest_of_piece(internal::best_digest_path(), tensor, piece, local);
}

}  // namespace tenplex
