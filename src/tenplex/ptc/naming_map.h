// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// NamingMap: how two programs name and shape the tensors of the same models, as rules read from YAML. The language is
// docs/maps.md.
//
//   sides: [hf, megatron]
//   tensors:
//     - hf: [layers.{layer}.gate.weight, layers.{layer}.up.weight]      two tensors there are one here: their rows
//       megatron: layers.{layer}.linear_fc1.weight                      follow each other
//       widths: [1, 1]
//
// A rule is about parts: logical arrays that each side stores as tensors of their own, or joined in one. A map knows
// neither shapes nor numbers of heads; map_tensors() (map_tensors.h) brings these together.
// Value type, immutable. Threads: as any value.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/name_pattern.h"
#include "tenplex/ptc/size_rules.h"

namespace tenplex {

/// How one side stores the parts of a rule.
struct MapSide {
  std::vector<NamePattern> names;  ///< one per part; or one, for a tensor that holds all parts
  Size blocks{1, {}};              ///< of a joined tensor: it is, for every block, a share of each part
  bool transpose = false;          ///< the two dimensions of the stored tensor are swapped
  std::vector<std::string> stack;  ///< words whose numbers are the first dimensions of the tensor, not in its name
  int line = 0;
};

struct MapRule {
  std::array<MapSide, 2> sides;
  int dim = 0;                       ///< along which the parts are joined, before a side transposes
  std::vector<Size> widths;          ///< of the parts, relative to each other; empty where nothing is joined
  std::vector<std::string> words;    ///< that names or stacks have; the same on both sides
  std::vector<std::string> partial;  ///< words of which not every number must have this tensor
  bool drop = false;                 ///< the tensors, which one side only names, are left out
  int line = 0;

  /// How many parts there are.
  std::size_t parts() const { return std::max(sides[0].names.size(), std::max(widths.size(), sides[1].names.size())); }
};

/// Two tensors of which a dimension of the first is as long as one of the second, times a number: what the sizes say of
/// a joined tensor is held against what others say.
struct MapAgreement {
  std::size_t side = 0;            ///< whose names and shapes these are
  std::vector<NamePattern> names;  ///< two, with the same words
  std::array<int, 2> dims{};
  Size times{1, {}};
  int line = 0;
};

struct MapRules {
  std::string family;
  std::array<std::string, 2> sides;
  std::vector<SizeRule> sizes;
  std::vector<MapRule> tensors;
  std::vector<MapAgreement> agreements;
};

class NamingMap {
 public:
  const std::string& name() const { return name_; }
  /// The YAML it was read from.
  const std::string& text() const { return text_; }
  const MapRules& rules() const { return rules_; }

  /// "map 'x' line 7".
  std::string where(int line) const;

 private:
  friend Result<NamingMap> parse_naming_map(std::string_view yaml, std::string_view name);

  std::string name_;
  std::string text_;
  MapRules rules_;
};

inline constexpr std::size_t kMaxMapBytes = std::size_t{1} << 20;

/// `name` is what messages call the map. Errors: invalid_argument with the line for YAML that does not parse, a key,
/// size or word that does not exist, sides that do not fit together; out_of_range for a text above kMaxMapBytes or
/// nesting beyond what maps need. YAML anchors and aliases are refused.
Result<NamingMap> parse_naming_map(std::string_view yaml, std::string_view name);

}  // namespace tenplex
