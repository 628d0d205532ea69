// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/leaf_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/state/key_text.h"

namespace tenplex {

// From the root.
std::vector<LeafList::Step> LeafList::steps(std::size_t leaf) const {
  std::vector<Step> steps;
  for (Step at = leaves_[leaf].place; at.container != kNoContainer; at = containers_[at.container].place)
    steps.push_back(at);
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::vector<PathStep> LeafList::path(std::size_t leaf) const {
  std::vector<PathStep> path;
  for (const Step& at : steps(leaf)) {
    PathStep& step = path.emplace_back();
    step.is_index = !containers_[at.container].keyed;
    if (step.is_index) {
      step.index = at.step;
    } else {
      step.key = *python_text(*graph_, at.step);
    }
  }
  return path;
}

std::string LeafList::name(std::size_t leaf) const {
  if (leaves_[leaf].place.container == kNoContainer)
    return (*graph_)[leaves_[leaf].node].kind == NodeKind::kTensor ? "tensor" : "value";
  std::string name;
  for (const Step& at : steps(leaf)) {
    if (at.container != 0) name += '.';
    if (!containers_[at.container].keyed) {
      fmt::format_to(std::back_inserter(name), "{}", at.step);
    } else if (const Node& key = (*graph_)[at.step]; key.kind == NodeKind::kString) {
      name += key.text;
    } else {
      name += *python_text(*graph_, at.step);
    }
  }
  return name;
}

std::string LeafList::subscripts(std::size_t leaf) const {
  std::string text;
  for (const Step& at : steps(leaf)) {
    const bool keyed = containers_[at.container].keyed;
    if (keyed && (*graph_)[at.step].kind == NodeKind::kString) {
      text += fmt::format("['{:.100}']", (*graph_)[at.step].text);
    } else {
      text += fmt::format("[{}]", keyed ? *python_text(*graph_, at.step) : fmt::to_string(at.step));
    }
  }
  return text;
}

LeafList LeafList::objects() const {
  LeafList objects(*this);
  objects.leaves_ = {};
  for (std::size_t leaf = 0; leaf < size(); ++leaf)
    if ((*graph_)[leaves_[leaf].node].kind != NodeKind::kTensor) objects.leaves_.push_back(leaves_[leaf]);
  return objects;
}

}  // namespace tenplex
