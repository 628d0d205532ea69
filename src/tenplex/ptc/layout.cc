// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {

namespace {

constexpr std::string_view kValuesLine = "values: {";

/// Takes a last line that with_sizes() added away, and ends the text with a line break.
void drop_values_line(std::string* text) {
  if (!text->ends_with('\n')) *text += '\n';
  const std::size_t before = text->size() < 2 ? std::string::npos : text->rfind('\n', text->size() - 2);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  if (std::string_view(*text).substr(start).starts_with(kValuesLine)) text->resize(start);
}

}  // namespace

bool TensorRule::is_catch_all() const {
  return !rank && without.empty() &&
         std::any_of(match.begin(), match.end(), [](const NamePattern& one) { return one.is_catch_all(); });
}

std::vector<std::string> Layout::axes() const {
  std::vector<std::string> axes;
  for (const MeshAxes& mesh : rules_.meshes)
    for (const std::string& axis : mesh.axes)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  return axes;
}

Result<std::vector<Mesh>> Layout::make_meshes(const MeshSizes& sizes) const {
  TENPLEX_ASSIGN_OR_RETURN(const MeshSizes complete, complete_sizes(rules_.meshes, rules_.axes, sizes));
  return tenplex::make_meshes(rules_.meshes, complete);
}

Result<Layout> Layout::with_sizes(const NamedSizes& given, const ConfigNumber& config) const {
  NamedSizes fixed = given;
  fixed.insert(fixed.end(), rules_.values.begin(), rules_.values.end());
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes sizes, resolve_sizes(rules_.size_rules, fixed, config, 0,
                                                                 [this](int line) { return where(line); }));
  Layout layout = *this;
  if (sizes == rules_.sizes) return layout;
  drop_values_line(&layout.text_);
  if (!rules_.values.empty() && layout.text_.size() >= text_.size())
    return invalid_argument(
        fmt::format("layout '{}' has 'values:' that are not its last line: correct them there", name_));
  layout.text_ += kValuesLine;
  for (std::size_t index = 0; index < sizes.size(); ++index)
    layout.text_ += fmt::format("{}{}: {}", index == 0 ? "" : ", ", sizes[index].first, sizes[index].second);
  layout.text_ += "}\n";
  layout.rules_.values = sizes;
  layout.rules_.sizes = sizes;
  return layout;
}

Result<Layout> Layout::with_zero(int zero) const {
  if (rules_.zero != 0) return invalid_argument(fmt::format("layout '{}' says 'zero: {}' itself", name_, rules_.zero));
  return parse_layout(fmt::format("{}{}zero: {}\n", text_, text_.ends_with('\n') ? "" : "\n", zero),
                      fmt::format("{}+zero{}", name_, zero));
}

std::string Layout::where(int line) const { return fmt::format("layout '{}' line {}", name_, line); }

}  // namespace tenplex
