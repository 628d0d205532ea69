// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_index.h"

#include <algorithm>
#include <utility>

#include "tenplex/ptc/slot_names.h"

namespace tenplex {
namespace {

/// The text with every number, and every word in braces, as '#'.
std::string shape_of(std::string_view text) {
  std::string shape;
  shape.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    char next = text[at];
    if (next >= '0' && next <= '9') next = '#';
    if (next == '{') {
      const std::size_t close = text.find('}', at);
      if (close != std::string_view::npos) {
        next = '#';
        at = close;
      }
    }
    if (next != '#' || shape.empty() || shape.back() != '#') shape += next;
  }
  return shape;
}

/// Numbers as they are written: "07" is none, as no other side would write it back.
bool written_plainly(const NamePattern::Captures& captures) {
  return std::all_of(captures.begin(), captures.end(), [](const NamePattern::Capture& capture) {
    return capture.text.size() == 1 || capture.text.front() != '0';
  });
}

std::string_view text_of(const NamePattern::Captures& captures, std::string_view word) {
  for (const NamePattern::Capture& capture : captures)
    if (capture.word == word) return capture.text;
  return {};
}

}  // namespace

MapIndex::MapIndex(const MapRules& rules) : rules_(rules) {
  for (std::size_t rule = 0; rule < rules.tensors.size(); ++rule)
    for (std::size_t side = 0; side < 2; ++side) {
      const std::vector<NamePattern>& names = rules.tensors[rule].sides[side].names;
      for (std::size_t part = 0; part < names.size(); ++part)
        entries_[side][shape_of(names[part].text())].push_back({rule, part});
    }
  for (const std::string_view text : kSlotPatterns)
    if (auto pattern = NamePattern::parse(text)) slots_.push_back(*std::move(pattern));
}

std::optional<MapPlace> MapIndex::find(std::string_view name, std::size_t side) const {
  if (auto place = find_parameter(name, side)) return place;
  for (const NamePattern& pattern : slots_) {
    const auto captures = pattern.match(name);
    if (!captures) continue;
    const std::string_view parameter = text_of(*captures, "param");
    auto place = find_parameter(parameter, side);
    if (!place) continue;
    if (!name.ends_with(parameter)) place->frame.after = "." + std::string(text_of(*captures, "slot"));
    place->frame.before = name.substr(0, name.size() - parameter.size() - place->frame.after.size());
    return place;
  }
  return std::nullopt;
}

std::optional<MapPlace> MapIndex::find_parameter(std::string_view name, std::size_t side) const {
  const auto entries = entries_[side].find(shape_of(name));
  if (entries == entries_[side].end()) return std::nullopt;
  for (const Entry& entry : entries->second) {
    const MapRule& rule = rules_.tensors[entry.rule];
    const auto captures = rule.sides[side].names[entry.part].match(name);
    if (!captures || !written_plainly(*captures)) continue;
    MapPlace place{entry.rule, entry.part, {}, {}};
    for (const std::string& word : rule.words) place.values.push_back(captured_number(*captures, word).value_or(kOpen));
    return place;
  }
  return std::nullopt;
}

}  // namespace tenplex
