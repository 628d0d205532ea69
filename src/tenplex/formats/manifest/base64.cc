// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/base64.h"

#include <cstdint>

namespace tenplex {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Value of a digit, or 64.
std::uint32_t digit(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<std::uint32_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0' + 52);
  return c == '+' ? 62 : c == '/' ? 63 : 64;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text.push_back(k <= group.size() ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=');
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::size_t digits = 4;
    if (at + 4 == text.size())
      while (digits > 2 && text[at + digits - 1] == '=') --digits;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint32_t value = k < digits ? digit(text[at + k]) : 0;
      if (value == 64) return std::nullopt;
      bits = bits << 6 | value;
    }
    for (std::size_t k = 0; k + 1 < digits; ++k) bytes.push_back(static_cast<char>(bits >> (16 - 8 * k) & 0xFF));
    if (digits < 4 && (bits & (digits == 2 ? 0xFFFFU : 0xFFU)) != 0) return std::nullopt;
  }
  return bytes;
}

}  // namespace tenplex
