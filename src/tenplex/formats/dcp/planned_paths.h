// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PlannedPaths: planner_data of `.metadata`, packed: which way in the state tree each name has.
//
//   "model.0.w" ─► ("model", 0, "w")      the name's atom ─► steps: a text's atom, or an index
//
// Resource with value-like behaviour: movable. Cost: 12 B per name + 4 B per step. Threads: const calls are safe
// together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/pickle/pickle_document.h"
#include "tenplex/formats/state/leaf_list.h"

namespace tenplex::dcp {

class PlannedPaths {
 public:
  /// Takes the paths out of a dict; nothing from any other node. What is no path is kept as such, for read().
  void load(const PickleDocument& document, NodeId planner_data);

  std::size_t size() const { return paths_.size(); }
  /// An atom, not always of a text; kNoNode for a key that is none.
  NodeId name(std::size_t path) const { return paths_[path].name; }
  /// True if the name is the only step.
  bool is_own_name(std::size_t path) const;
  /// Replaces `*steps`. `document` is the one of load(). Errors: corrupt for what is no path.
  Result<void> read(std::size_t path, const PickleDocument& document, std::vector<PathStep>* steps) const;

 private:
  struct Path {
    NodeId name;
    std::uint32_t first_step;
    std::uint32_t step_count;
  };

  PagedList<Path> paths_;
  PagedList<std::uint32_t> steps_;
};

}  // namespace tenplex::dcp
