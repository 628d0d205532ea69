// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Logical digest: 128 bits per tensor that do not depend on how it is cut. Specification: docs/formats/digest.md.
//
//   digest = H(dtype, logical shape) + Σ_j (lane_j + 1) · w(j)   mod 2^64, twice with independent weights
//
// Shards' sums add up, in any order. It guards against accidents, not against an adversary.
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <string>

#include "tenplex/base/bytes.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct Digest {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  Digest& operator+=(const Digest& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
  friend Digest operator+(Digest a, const Digest& b) { return a += b; }
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// 32 lower-case hexadecimal digits, `first` first.
std::string to_string(const Digest& digest);

/// H: the part that depends on dtype and logical shape alone; the whole digest of an empty tensor.
Digest digest_of_header(DType dtype, const Dims& shape);

/// Σ over the elements [first_element, …) of the row-major flattening, stored contiguously in `bytes`.
/// Requires: `bytes` holds whole elements (sub-byte: whole bytes, and first_element starts one).
Digest digest_of_run(DType dtype, std::int64_t first_element, ByteSpan bytes);

/// Σ over the elements of `piece`, read from the local array at `local`. Merges contiguous runs.
Digest digest_of_piece(const TensorInfo& tensor, const Piece& piece, const std::byte* local);

}  // namespace tenplex
