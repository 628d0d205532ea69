// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// MapIndex: the rule of a naming map that a name falls under. Names and patterns meet where they are equal with every
// number replaced by '#', so that a name is held against few patterns:
//
//   layers.12.mlp.fc1.weight  ─►  layers.#.mlp.fc#.weight  ◄─  layers.{layer}.mlp.fc1.weight
//
// An optimizer slot falls under the rule of its parameter, unless the map has a rule for its whole name.
// Borrows the map. Threads: const calls are safe together. Cost of find(): O(length of the name).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenplex/ptc/naming_map.h"

namespace tenplex {

/// The numbers of a rule's words; kOpen for a word that is not in the name.
using WordValues = std::vector<std::int64_t>;
inline constexpr std::int64_t kOpen = -1;

/// What is around a parameter's name in the name of its slot; both empty: the name is the parameter's own.
struct SlotFrame {
  std::string before;
  std::string after;

  bool is_slot() const { return !before.empty() || !after.empty(); }
  std::string around(std::string_view name) const { return before + std::string(name) + after; }

  friend auto operator<=>(const SlotFrame&, const SlotFrame&) = default;
};

struct MapPlace {
  std::size_t rule = 0;
  std::size_t part = 0;  ///< index into the side's names
  WordValues values;     ///< one per word of the rule
  SlotFrame frame;
};

class MapIndex {
 public:
  explicit MapIndex(const MapRules& rules);

  /// The first rule with this name on side `side`, or nothing.
  std::optional<MapPlace> find(std::string_view name, std::size_t side) const;

 private:
  struct Entry {
    std::size_t rule;
    std::size_t part;
  };

  std::optional<MapPlace> find_parameter(std::string_view name, std::size_t side) const;

  const MapRules& rules_;
  std::array<std::unordered_map<std::string, std::vector<Entry>>, 2> entries_;
};

}  // namespace tenplex
