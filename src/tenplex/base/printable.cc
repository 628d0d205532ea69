// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace tenplex {
namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< 0 = the text does not start with well-formed UTF-8
};

/// The first code point; overlong forms, surrogates and what lies above U+10FFFF are not well-formed.
CodePoint first_of(std::string_view text) {
  const auto byte = [&text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  char32_t value = lead & (0x7FU >> bytes);
  for (std::size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return {};
    value = value << 6U | (byte(at) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, bytes};
}

/// Unicode's control (Cc), format (Cf), line and paragraph separator (Zl, Zp) characters from U+007F on.
bool is_hidden(char32_t value) {
  constexpr std::array<std::pair<char32_t, char32_t>, 18> kRanges = {{{0x7F, 0x9F},
                                                                      {0xAD, 0xAD},
                                                                      {0x600, 0x605},
                                                                      {0x61C, 0x61C},
                                                                      {0x6DD, 0x6DD},
                                                                      {0x70F, 0x70F},
                                                                      {0x890, 0x891},
                                                                      {0x8E2, 0x8E2},
                                                                      {0x180E, 0x180E},
                                                                      {0x200B, 0x200F},
                                                                      {0x2028, 0x202E},
                                                                      {0x2060, 0x206F},
                                                                      {0xFEFF, 0xFEFF},
                                                                      {0xFFF9, 0xFFFB},
                                                                      {0x13430, 0x1343F},
                                                                      {0x1BCA0, 0x1BCA3},
                                                                      {0x1D173, 0x1D17A},
                                                                      {0xE0000, 0xE0FFF}}};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [value](const auto& range) { return value >= range.first && value <= range.second; });
}

std::string escape_of(char32_t value) {
  if (value == '\n') return "\\n";
  if (value == '\r') return "\\r";
  if (value == '\t') return "\\t";
  const auto number = static_cast<std::uint32_t>(value);
  if (number < 0x80) return fmt::format("\\x{:02x}", number);
  return number <= 0xFFFF ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

std::string escape(std::string_view text, bool backslash) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_of(text);
    if (point.bytes == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (point.value == '\\' && backslash) {
      shown += "\\\\";
    } else if (point.value < 0x20 || (point.value >= 0x7F && is_hidden(point.value))) {
      shown += escape_of(point.value);
    } else {
      shown += text.substr(0, point.bytes);
    }
    text.remove_prefix(std::max<std::size_t>(point.bytes, 1));
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return escape(text, false); }

std::string printable_name(std::string_view name) { return escape(name, true); }

}  // namespace tenplex
