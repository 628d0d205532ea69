// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A regular expression over parameter names, of those that Python's `re` knows, matched in time linear in the name.
//
//   layers\.\d+\.(?:up|down)\.weight$    .*norm[12]?\.bias    ^words    x{2,3}
//
// It is a set of states that is moved along the name, so that no pattern makes it slow or deep. What needs another way
// of matching is refused: back references, look-around, flags, possessive repeats, named groups, \b.
//
// Value type. Threads: as any value.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex::deepspeed {

class RegexPattern {
 public:
  /// Errors: unsupported, with the character that is the trouble, for what is not known here, for more than 1,000
  /// characters, for what is no ASCII, and for repeats that need more than 10,000 states.
  static Result<RegexPattern> parse(std::string_view text);

  /// As re.match: from the start of the name, and not necessarily to its end. Requires: the name is ASCII.
  /// Cost: O(states · name).
  bool matches(std::string_view name) const;

 private:
  friend class RegexPatternParser;
  enum class Op : std::uint8_t { kSet, kSplit, kStart, kEnd, kVeryEnd, kMatch };
  struct State {
    Op op = Op::kMatch;
    std::uint32_t next = 0;
    std::uint32_t other = 0;  // kSplit: the second next; kSet: the set
  };

  std::vector<State> states_;
  std::vector<std::bitset<128>> sets_;
  std::uint32_t first_ = 0;
};

}  // namespace tenplex::deepspeed
