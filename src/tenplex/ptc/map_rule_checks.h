// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Do the two sides of a rule of a naming map fit together? Internal to parse_naming_map().
//
// Pure. Threads: safe together.
#pragma once

#include <span>

#include "tenplex/base/result.h"
#include "tenplex/ptc/naming_map.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {

/// As many names and widths as the rule has parts, and blocks only where one tensor holds them all. Errors:
/// invalid_argument with the line.
Result<void> check_parts(const YamlReader& yaml, const MapRule& rule);

/// Requires: there is a name. Errors: invalid_argument with the line.
Result<void> check_same_words(const YamlReader& yaml, std::span<const NamePattern> names, int line);

/// Sets `rule->words`, which names and stacks of both sides must have. Errors: invalid_argument with the line.
Result<void> check_words(const YamlReader& yaml, MapRule* rule);

}  // namespace tenplex
