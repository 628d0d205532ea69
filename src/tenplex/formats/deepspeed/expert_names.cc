// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/expert_names.h"

#include <fmt/format.h>

#include <charconv>

namespace tenplex::deepspeed {
namespace {

constexpr std::string_view kModules = ".deepspeed_moe.experts.deepspeed_experts.";

/// Takes a number off the start, of at most nine digits.
std::optional<std::int64_t> take_digits(std::string_view* text) {
  constexpr std::size_t kMaxDigits = 9;
  std::size_t digits = 0;
  while (digits < text->size() && (*text)[digits] >= '0' && (*text)[digits] <= '9') ++digits;
  if (digits == 0 || digits > kMaxDigits) return std::nullopt;
  std::int64_t value = 0;
  std::from_chars(text->data(), text->data() + digits, value);
  text->remove_prefix(digits);
  return value;
}

std::optional<std::int64_t> take_field(std::string_view* text, std::string_view before) {
  if (!text->starts_with(before)) return std::nullopt;
  text->remove_prefix(before.size());
  return take_digits(text);
}

}  // namespace

std::string ExpertName::with(std::int64_t number) const { return fmt::format("{}{}{}", layer, number, rest); }

std::optional<ExpertName> parse_expert_name(std::string_view name) {
  const std::size_t at = name.find(kModules);
  if (at == std::string_view::npos) return std::nullopt;
  ExpertName found;
  found.layer = name.substr(0, at + kModules.size());
  std::string_view rest = name.substr(found.layer.size());
  const auto number = take_digits(&rest);
  if (!number || !rest.starts_with('.')) return std::nullopt;
  found.expert = *number;
  found.rest = rest;
  return found;
}

std::optional<ExpertFile> parse_expert_file(std::string_view name) {
  const auto layer = take_field(&name, "layer_");
  const auto expert = layer ? take_field(&name, "_expert_") : std::nullopt;
  const auto rank = expert ? take_field(&name, "_mp_rank_") : std::nullopt;
  if (!rank || name != "_model_states.pt") return std::nullopt;
  return ExpertFile{*layer, *expert, *rank};
}

std::optional<std::int64_t> parse_expert_optimizer(std::string_view name) {
  const auto rank = take_field(&name, "expp_rank_");
  if (!rank || name != "_mp_rank_00_optim_states.pt") return std::nullopt;
  return rank;
}

}  // namespace tenplex::deepspeed
