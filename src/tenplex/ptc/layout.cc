// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {

bool TensorRule::is_catch_all() const {
  return !rank && std::any_of(match.begin(), match.end(), [](const NamePattern& one) { return one.is_catch_all(); });
}

std::vector<std::string> Layout::axes() const {
  std::vector<std::string> axes;
  for (const MeshAxes& mesh : rules_.meshes)
    for (const std::string& axis : mesh.axes)
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  return axes;
}

std::string Layout::where(int line) const { return fmt::format("layout '{}' line {}", name_, line); }

}  // namespace tenplex
