// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_index.h"

#include <algorithm>
#include <utility>

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

/// Calls visit(begin, length) for every parameter's name that the name of a slot can hold, as kSlotPatterns
/// (slot_names.h) say, until it returns true.
template <typename Visit>
void for_each_parameter(std::string_view name, Visit visit) {
  constexpr std::string_view kState = "state.";
  for (std::size_t at = name.find(kState); at != std::string_view::npos; at = name.find(kState, at + 1)) {
    if (at > 0 && name[at - 1] != '.') continue;
    const std::size_t begin = at + kState.size();
    const std::size_t last = name.rfind('.');
    if (last > begin && visit(begin, last - begin)) return;  // {param}.{slot}
    const std::size_t first = name.find('.', begin);
    if (first != std::string_view::npos && first > begin && visit(first + 1, name.size() - first - 1)) return;
  }
}

}  // namespace

MapIndex::MapIndex(const MapRules& rules) : rules_(rules) {
  for (std::size_t rule = 0; rule < rules.tensors.size(); ++rule)
    for (std::size_t side = 0; side < 2; ++side) {
      const std::vector<NamePattern>& names = rules.tensors[rule].sides[side].names;
      for (std::size_t part = 0; part < names.size(); ++part)
        entries_[side][shape_of(names[part].text())].push_back({rule, part});
    }
}

std::optional<MapPlace> MapIndex::find(std::string_view name, std::size_t side) const {
  if (auto place = find_parameter(name, side)) return place;
  std::optional<MapPlace> place;
  for_each_parameter(name, [&](std::size_t begin, std::size_t length) {
    place = find_parameter(name.substr(begin, length), side);
    if (place) place->frame = {std::string(name.substr(0, begin)), std::string(name.substr(begin + length))};
    return place.has_value();
  });
  return place;
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
