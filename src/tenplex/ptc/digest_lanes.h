// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loop of the logical digest, once per instruction set, for the dispatcher and for tests. The terms are those
// of docs/formats/digest.md: lanes in blocks of 512, w(j) = u(j / 512) · t(j mod 512).
//
// A block function sums lane · t over a part of one block. It splits t into halves, so that every multiplication is
// 32 × 32 bits:   lane · t  =  lane · t_low  +  2^32 · (lane · t_high mod 2^32)   mod 2^64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tenplex/ptc/digest.h"

namespace tenplex::internal {

inline constexpr std::size_t kLanesPerBlock = 512;

/// One of the two independent weightings.
struct LaneWeights {
  alignas(64) std::array<std::uint64_t, kLanesPerBlock> whole{};      ///< t(k)
  alignas(64) std::array<std::uint32_t, kLanesPerBlock + 32> low{};   ///< its halves; zeros at the end, so that a
  alignas(64) std::array<std::uint32_t, kLanesPerBlock + 32> high{};  ///< vector may be loaded at every k and k + 1
  std::array<std::uint64_t, kLanesPerBlock + 1> sum_before{};         ///< Σ t(i) over i < k
};

extern const std::array<LaneWeights, 2> kLaneWeights;

/// Σ lane_i · t(position + i) for 0 <= i < count, in both weightings.
/// Requires: position + count <= kLanesPerBlock.
using BlockFunction = Digest (*)(const std::byte* lanes, std::size_t position, std::size_t count);

/// One instruction set's block functions.
struct DigestPath {
  const char* name;
  BlockFunction lanes_of_1_byte;
  BlockFunction lanes_of_2_bytes;
  BlockFunction lanes_of_4_bytes;
};

const DigestPath& digest_path_portable();
/// Null if this processor or this build lacks the instructions.
const DigestPath* digest_path_avx2();
const DigestPath* digest_path_avx512();
/// The fastest one that this processor has.
const DigestPath& best_digest_path();

/// As tenplex::digest_of_run(), with the instructions of `path`.
Digest digest_of_run(const DigestPath& path, DType dtype, std::int64_t first_element, ByteSpan bytes);

/// As tenplex::digest_of_piece(), with the instructions of `path`.
Digest digest_of_piece(const DigestPath& path, const TensorInfo& tensor, const Piece& piece, const std::byte* local);

}  // namespace tenplex::internal
