// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/layer_names.h"

#include <charconv>

namespace tenplex::deepspeed {
namespace {

constexpr std::string_view kTiedModules = "tied_modules.";

std::optional<std::int64_t> take_layer_number(std::string_view* text) {
  constexpr std::size_t kMaxDigits = 9;
  std::int64_t value = 0;
  if (text->empty() || text->front() == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const auto digits = static_cast<std::size_t>(end - text->data());
  if (error != std::errc() || digits > kMaxDigits) return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

bool take_text(std::string_view* text, std::string_view start) {
  if (!text->starts_with(start)) return false;
  text->remove_prefix(start.size());
  return true;
}

}  // namespace

std::optional<LayerFile> parse_layer_file(std::string_view name) {
  const auto layer = take_text(&name, "layer_") ? take_layer_number(&name) : std::nullopt;
  if (!layer) return std::nullopt;
  if (name == "-model_states.pt") return LayerFile{*layer, 0};
  const auto rank = take_text(&name, "-model_") ? take_layer_number(&name) : std::nullopt;
  if (!rank || name != "-model_states.pt") return std::nullopt;
  return LayerFile{*layer, *rank};
}

std::optional<LayerName> parse_layer_name(std::string_view name) {
  LayerName found;
  if (take_text(&name, kTiedModules)) {
    const std::size_t dot = name.find('.');
    if (dot == 0 || dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
    found.module = name.substr(0, dot);
    found.rest = name.substr(dot + 1);
    return found;
  }
  const auto layer = take_layer_number(&name);
  if (!layer || !take_text(&name, ".") || name.empty()) return std::nullopt;
  found.layer = *layer;
  found.rest = name;
  return found;
}

}  // namespace tenplex::deepspeed
