// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// SizeRule: a number that a layout or a naming map uses by name, and where its value comes from.
//
//   sizes:
//     heads: num_attention_heads                             a key of the checkpoint's configuration
//     groups: {config: [num_key_value_heads, num_query_groups], default: heads}
//     blocks: 32                                             a number
//
// Pure. Value types. Threads: safe together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {

/// A whole number, or the name of one.
struct Size {
  std::int64_t value = 0;
  std::string name;  ///< empty: `value` counts

  friend bool operator==(const Size&, const Size&) = default;
};

/// Values of names, as in `sizes:`. Where a caller gives the same name, the caller's value counts.
using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

/// The whole number under a key of the checkpoint's configuration, or nothing.
using ConfigNumber = std::function<std::optional<std::int64_t>(std::string_view key)>;

struct SizeRule {
  std::string name;
  std::vector<std::string> config;  ///< keys of the configuration; the first that is there counts
  std::optional<Size> otherwise;    ///< a number, or a size before this one
  int line = 0;
};

/// The section `sizes:` of a document. `least` is the smallest number that it may give. Errors: invalid_argument with
/// the line.
Result<std::vector<SizeRule>> read_size_rules(const YamlReader& yaml, const YamlNode& node, std::int64_t least);

/// A number of at least `least`, or the name of one of `known`. Errors: invalid_argument with the line.
Result<Size> read_known_size(const YamlReader& yaml, const YamlNode& node, std::string_view what, std::int64_t least,
                             std::span<const SizeRule> known);

std::optional<std::int64_t> find_size(const NamedSizes& sizes, std::string_view name);

/// The sizes that have a value, in the order of `rules`: the one in `given`, else that of the configuration, else the
/// default. A default that is the name of a size does not count where only `given` says what that one is and this one
/// has keys of the configuration: who gives one of the two must give both. `given` may have other names too. `where` is
/// what messages call a line. Errors: invalid_argument for a value below `least`.
Result<NamedSizes> resolve_sizes(std::span<const SizeRule> rules, const NamedSizes& given, const ConfigNumber& config,
                                 std::int64_t least, const std::function<std::string(int line)>& where);

}  // namespace tenplex
