// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/natural_order.h"

#include <fmt/format.h>

#include <charconv>

namespace tenplex {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string_view without_zeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

/// −1, 0 or 1 as the value of `a` is less, equal or greater.
int compare_values(std::string_view a, std::string_view b) {
  const std::string_view value_a = without_zeros(a);
  const std::string_view value_b = without_zeros(b);
  if (value_a.size() != value_b.size()) return value_a.size() < value_b.size() ? -1 : 1;
  return value_a.compare(value_b);
}

/// The position in `numbers` that changes over the family, or nothing.
std::optional<std::size_t> changing_position(const std::vector<NumberedName>& family) {
  std::optional<std::size_t> position;
  for (const NumberedName& name : family) {
    if (name.pattern != family.front().pattern) return std::nullopt;
    for (std::size_t k = 0; k < name.numbers.size(); ++k) {
      if (name.numbers[k] == family.front().numbers[k]) continue;
      if (position && *position != k) return std::nullopt;
      position = k;
    }
  }
  return position;
}

/// Index of the number after "-of-" in the family's names, or nothing.
std::optional<std::size_t> count_position(const NumberedName& name) {
  const std::size_t at = name.pattern.find("#-of-#");
  if (at == std::string::npos) return std::nullopt;
  std::size_t index = 1;
  for (std::size_t k = 0; k < at; ++k) index += name.pattern[k] == '#' ? 1 : 0;
  if (index >= name.numbers.size()) return std::nullopt;
  return index;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t k = 0;
  while (i < a.size() && k < b.size()) {
    if (is_digit(a[i]) && is_digit(b[k])) {
      const std::string_view digits_a = digits_at(a, i);
      const std::string_view digits_b = digits_at(b, k);
      if (const int order = compare_values(digits_a, digits_b); order != 0) return order < 0;
      i += digits_a.size();
      k += digits_b.size();
      continue;
    }
    if (a[i] != b[k]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[k]);
    ++i;
    ++k;
  }
  if (i == a.size() && k == b.size()) return a.size() != b.size() ? a.size() < b.size() : a < b;
  return i == a.size();
}

std::optional<NumberedName> split_numbers(std::string_view name) {
  NumberedName split;
  for (std::size_t at = 0; at < name.size();) {
    const std::string_view digits = digits_at(name, at);
    if (digits.empty()) {
      split.pattern.push_back(name[at++]);
      continue;
    }
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) return std::nullopt;
    split.numbers.push_back(value);
    split.pattern.push_back('#');
    at += digits.size();
  }
  return split;
}

Result<void> check_numbering(const std::vector<std::string>& names) {
  std::vector<NumberedName> family;
  for (const std::string& name : names) {
    auto split = split_numbers(name);
    if (!split) return invalid_argument(fmt::format("'{}': a number in the name is too large", name));
    family.push_back(std::move(*split));
  }
  const auto position = changing_position(family);
  if (!position && names.size() > 1)
    return invalid_argument(
        fmt::format("'{}' … '{}' are not one family of numbered files", names.front(), names.back()));
  if (position) {
    std::int64_t expected = family.front().numbers[*position];
    if (expected != 0 && expected != 1)
      return not_found(
          fmt::format("the files start with number {} ('{}'): 0 or 1 is missing", expected, names.front()));
    for (std::size_t k = 0; k < family.size(); ++k, ++expected)
      if (family[k].numbers[*position] != expected)
        return not_found(fmt::format("file number {} is missing before '{}'", expected, names[k]));
  }
  const auto counted = family.empty() ? std::nullopt : count_position(family.front());
  if (!counted || (position && *position + 1 != *counted)) return {};
  if (const std::int64_t count = family.front().numbers[*counted]; count != std::int64_t(names.size()))
    return not_found(fmt::format("the names say {} files, {} are there", count, names.size()));
  return {};
}

}  // namespace tenplex
