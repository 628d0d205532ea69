// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/stored_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tenplex/base/decimal.h"

namespace tenplex::megatron {
namespace {

constexpr std::string_view kLayers = "decoder.layers.";
constexpr std::string_view kStackedExperts = "mlp.experts.experts.";
constexpr std::string_view kExpertModules = "mlp.experts.local_experts.";
constexpr std::string_view kGroupedExperts = "mlp.experts.";
constexpr std::array<std::string_view, 4> kGroupedNames = {"linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight",
                                                           "linear_fc2.bias"};
/// Norms as parts of linear modules, and as modules.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kNorms = {
    {{"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
     {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."}}};

bool take_beginning(std::string_view* text, std::string_view beginning) {
  if (!text->starts_with(beginning)) return false;
  text->remove_prefix(beginning.size());
  return true;
}

/// The number up to a dot, and the dot.
std::optional<std::int64_t> take_numbered(std::string_view* text) {
  const std::size_t dot = text->find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto number = decimal_of(text->substr(0, dot));
  if (number) text->remove_prefix(dot + 1);
  return number;
}

/// "linear_fc1.weight5": the number behind it.
std::optional<std::int64_t> take_grouped(std::string_view* text) {
  for (const std::string_view name : kGroupedNames) {
    if (!text->starts_with(name)) continue;
    const auto number = decimal_of(text->substr(name.size()));
    if (number) *text = name;
    return number;
  }
  return std::nullopt;
}

Half take_half(std::string_view* name) {
  for (const auto& [ending, half] : {std::pair{std::string_view("_w"), Half::kGate}, {"_v", Half::kUp}}) {
    if (!name->ends_with(ending)) continue;
    const std::string_view whole = name->substr(0, name->size() - ending.size());
    if (!whole.ends_with("linear_fc1.weight") && !whole.ends_with("linear_fc1.bias")) continue;
    *name = whole;
    return half;
  }
  return Half::kWhole;
}

}  // namespace

StoredName parse_stored_name(std::string_view name) {
  StoredName parsed;
  parsed.half = take_half(&name);
  parsed.tail = name;
  if (!take_beginning(&parsed.tail, kLayers)) return parsed;
  parsed.has_layer = true;
  parsed.before_layer = kLayers;
  parsed.layer = take_numbered(&parsed.tail);
  std::string_view rest = parsed.tail;
  if (take_beginning(&rest, kStackedExperts)) {
    parsed.has_expert = true;
    parsed.expert = take_numbered(&rest);
  } else if (take_beginning(&rest, kExpertModules)) {
    parsed.expert = take_numbered(&rest);
  } else if (take_beginning(&rest, kGroupedExperts)) {
    parsed.expert = take_grouped(&rest);
  }
  parsed.has_expert = parsed.has_expert || parsed.expert.has_value();
  if (parsed.has_expert) parsed.tail = rest;
  return parsed;
}

std::string StoredName::of_module(const ModelForm& form, std::int64_t layer_number, std::int64_t expert_number) const {
  if (!has_layer) return std::string(tail);
  const std::string front = fmt::format("{}{}.", before_layer, layer.value_or(layer_number));
  const std::int64_t number = expert.value_or(expert_number);
  if (has_expert)
    return form.has_grouped_experts ? fmt::format("{}{}{}{}", front, kGroupedExperts, tail, number)
                                    : fmt::format("{}{}{}.{}", front, kExpertModules, number, tail);
  if (form.has_own_norms)
    for (const auto& [part, module] : kNorms)
      if (tail.starts_with(part)) return fmt::format("{}{}{}", front, module, tail.substr(part.size()));
  return front + std::string(tail);
}

}  // namespace tenplex::megatron
