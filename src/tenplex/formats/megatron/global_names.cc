// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/global_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tenplex/base/decimal.h"

namespace tenplex::megatron {
namespace {

constexpr std::size_t kMaxDigits = 6;
constexpr std::array<std::string_view, 2> kStacks = {"decoder", "encoder"};
// What the number of an expert follows.
constexpr std::array<std::string_view, 5> kExpertMarks = {
    "mlp.experts.local_experts.", "mlp.experts.linear_fc1.weight", "mlp.experts.linear_fc1.bias",
    "mlp.experts.linear_fc2.weight", "mlp.experts.linear_fc2.bias"};

// The decimal number at the start of the text, which ends or goes on with a dot; takes it off.
std::optional<std::int64_t> take_number(std::string_view* text) {
  const std::size_t end = std::min(text->find('.'), text->size());
  if (end == 0 || end > kMaxDigits) return std::nullopt;
  const auto value = decimal_of(text->substr(0, end));
  if (!value) return std::nullopt;
  text->remove_prefix(end);
  return value;
}

}  // namespace

std::string NumberedName::with(std::int64_t other_layer, std::int64_t other_expert) const {
  std::string name(before_layer);
  if (layer) name += fmt::format("{}{}", other_layer, before_expert);
  if (expert) name += fmt::format("{}{}", other_expert, after_expert);
  return name;
}

NumberedName split_numbers(std::string_view name) {
  NumberedName split;
  split.before_layer = name;
  for (const std::string_view stack : kStacks) {
    const std::string layers = fmt::format("{}.layers.", stack);
    if (!name.starts_with(layers)) continue;
    std::string_view rest = name.substr(layers.size());
    split.layer = take_number(&rest);
    if (!split.layer) break;
    split.stack = name.substr(0, stack.size());
    split.before_layer = name.substr(0, layers.size());
    split.before_expert = rest;
  }
  for (const std::string_view mark : kExpertMarks) {
    const std::size_t at = split.before_expert.find(mark);
    if (at == std::string_view::npos) continue;
    std::string_view rest = split.before_expert.substr(at + mark.size());
    split.expert = take_number(&rest);
    if (!split.expert) continue;
    split.before_expert = split.before_expert.substr(0, at + mark.size());
    split.after_expert = rest;
    break;
  }
  return split;
}

}  // namespace tenplex::megatron
