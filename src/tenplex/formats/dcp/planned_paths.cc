// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/planned_paths.h"

#include <algorithm>

#include "tenplex/base/check.h"

namespace tenplex::dcp {
namespace {

constexpr std::uint32_t kNoPath = 0xffffffff;        // as step_count
constexpr std::uint32_t kBadStep = kNoNode;          // as step
constexpr std::int64_t kMaxIndex = kFirstAtom - 1U;  // larger ones stand as this; no list is as long

std::uint32_t pack_step(const PickleDocument& document, NodeId id) {
  if (document.text(id)) return id;
  const std::optional<std::int64_t> index = document.integer(id);
  if (!index || *index < 0) return kBadStep;
  return static_cast<std::uint32_t>(std::min(*index, kMaxIndex));
}

}  // namespace

void PlannedPaths::load(const PickleDocument& document, NodeId planner_data) {
  if (document.kind(planner_data) != NodeKind::kDict) return;
  const std::span<const NodeId> pairs = document.children(planner_data);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    Path path{is_atom(pairs[i]) ? pairs[i] : kNoNode, static_cast<std::uint32_t>(steps_.size()), kNoPath};
    const std::optional<NodeKind> kind = document.kind(pairs[i + 1]);
    if (kind == NodeKind::kTuple || kind == NodeKind::kList) {
      const std::span<const NodeId> steps = document.children(pairs[i + 1]);
      TENPLEX_CHECK(steps_.size() + steps.size() < kNoPath);
      for (const NodeId step : steps) steps_.push_back(pack_step(document, step));
      path.step_count = static_cast<std::uint32_t>(steps.size());
    }
    paths_.push_back(path);
  }
}

bool PlannedPaths::is_own_name(std::size_t path) const {
  return paths_[path].step_count == 1 && paths_[path].name != kNoNode &&
         steps_[paths_[path].first_step] == paths_[path].name;
}

Result<void> PlannedPaths::read(std::size_t path, const PickleDocument& document, std::vector<PathStep>* steps) const {
  steps->clear();
  if (paths_[path].step_count == kNoPath) return corrupt("its path in planner_data is no tuple");
  for (std::uint32_t i = 0; i < paths_[path].step_count; ++i) {
    const std::uint32_t packed = steps_[paths_[path].first_step + i];
    if (packed == kBadStep) return corrupt("its path in planner_data has a step that is neither text nor an index");
    PathStep& step = steps->emplace_back();
    step.is_index = !is_atom(packed);
    if (step.is_index) {
      step.index = packed;
    } else {
      step.key = *document.text(packed);
    }
  }
  return {};
}

}  // namespace tenplex::dcp
