// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// YamlNode: a YAML document as a tree with line numbers, and typed access with errors that name the line.
//
// Untrusted input: size, depth and number of nodes are limited, anchors and aliases are refused, a key that occurs
// twice is an error. Threads: as any value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"

namespace tenplex {

struct YamlNode {
  enum class Kind : unsigned char { kNull, kScalar, kSequence, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  int line = 1;
  bool quoted = false;
  std::string text;             ///< of a scalar
  std::vector<YamlNode> items;  ///< of a sequence
  std::vector<Entry> entries;   ///< of a map, in the order of the text

  /// The value of `key`, or null.
  const YamlNode* find(std::string_view key) const;
};

struct YamlNode::Entry {
  std::string key;
  int line = 1;
  YamlNode value;
};

/// What a kind of document may have. The defaults are those of a layout.
struct YamlForm {
  std::size_t max_bytes = std::size_t{1} << 20;  ///< of text
  std::size_t max_values = 200'000;              ///< scalars (keys too), sequences and maps
};

/// Most entries of one list or map of rules.
inline constexpr std::size_t kMaxRules = 4096;

/// Reads typed values out of a document; `document` is what messages call it ("layout 'x'").
class YamlReader {
 public:
  explicit YamlReader(std::string document, const YamlForm& form = {}) : document_(std::move(document)), form_(form) {}

  /// Errors: invalid_argument with the line, out_of_range for a document beyond the limits.
  Result<YamlNode> parse(std::string_view text) const;

  /// An invalid_argument error "layout 'x' line 7: message".
  Error error(int line, std::string_view message) const;
  Error error(const YamlNode& node, std::string_view message) const { return error(node.line, message); }

  /// Errors if the node is no map or has other keys; `what` names it ("a slice").
  Result<void> check_keys(const YamlNode& node, std::string_view what, std::span<const std::string_view> keys) const;
  Result<void> check_sequence(const YamlNode& node, std::string_view what) const;
  /// A scalar that is not empty.
  Result<std::string> text(const YamlNode& node, std::string_view what) const;
  /// A scalar of letters, digits, '_' and '-'.
  Result<std::string> word(const YamlNode& node, std::string_view what) const;
  /// A whole number in [low, high].
  Result<std::int64_t> integer(const YamlNode& node, std::string_view what, std::int64_t low, std::int64_t high) const;
  Result<bool> boolean(const YamlNode& node, std::string_view what) const;
  /// True if the scalar reads as a whole number.
  static bool is_integer(const YamlNode& node);

 private:
  Result<void> check_characters(std::string_view text) const;
  std::string document_;
  YamlForm form_;
};

}  // namespace tenplex
