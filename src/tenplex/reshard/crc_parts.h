// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// CrcParts: the CRC-32 of a run of bytes that become known in parts, in any order.
//
//   add [0, 4)   add [8, 12)   add [4, 8)   ->   one part [0, 12), its CRC combined from the three
//
// Value type: usually one or a few parts. Threads: as any value.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tenplex {

class CrcParts {
 public:
  struct Part {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint32_t crc = 0;
  };

  /// Adds a part; what overlaps a known part is ignored whole. Requires: begin < end.
  void add(std::int64_t begin, std::int64_t end, std::uint32_t crc);

  /// The ranges of [begin, end) that no part covers, ascending.
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps(std::int64_t begin, std::int64_t end) const;

  /// True if one part covers [0, size).
  bool covers(std::int64_t size) const;

  /// Requires: covers(…) holds.
  std::uint32_t crc() const { return parts_.empty() ? 0 : parts_.front().crc; }

 private:
  std::vector<Part> parts_;  // ascending, not adjacent
};

}  // namespace tenplex
