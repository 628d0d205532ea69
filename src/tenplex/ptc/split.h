// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Split: how a number of indices is divided into parts.
//
//   6 over 4:  chunk 2 2 2 0 (as torch.chunk and FSDP2)   balanced 2 2 1 1   even: refused   widths [3, 0, 2, 1]: as
//   given
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

struct Range {
  std::int64_t begin = 0;
  std::int64_t length = 0;

  friend bool operator==(const Range&, const Range&) = default;
};

struct Split {
  enum class Kind : unsigned char {
    kChunk,     ///< ceil(extent / parts) each, what is left to the last ones; they may be empty
    kBalanced,  ///< lengths differ by at most one, the longer ones first
    kEven,      ///< all equal, or an error
    kWidths,    ///< as listed
  };
  Kind kind = Kind::kChunk;
  std::vector<std::int64_t> widths;  ///< one per part; only for kWidths

  friend bool operator==(const Split&, const Split&) = default;
};

/// "chunk", "balanced" and "even"; widths are given as numbers.
std::optional<Split::Kind> parse_split(std::string_view word);

/// Can `extent` be split so? Errors: invalid_argument. Requires: extent >= 0, parts >= 1.
Result<void> check_split(const Split& split, std::int64_t extent, std::int64_t parts);

/// The range of part `part`. Requires: check_split() passed, 0 <= part < parts.
Range part_range(const Split& split, std::int64_t extent, std::int64_t parts, std::int64_t part);

/// The part that holds `index`. Requires: 0 <= index < extent.
std::int64_t part_of(const Split& split, std::int64_t extent, std::int64_t parts, std::int64_t index);

/// True if all parts are equally long.
bool is_even(const Split& split, std::int64_t extent, std::int64_t parts);

}  // namespace tenplex
