// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/view_numbers.h"

#include <algorithm>

#include "tenplex/base/check.h"

namespace tenplex {
namespace {

std::uint32_t rank_in(const std::vector<std::uint32_t>& numbers, std::uint32_t number) {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), number);
  TENPLEX_CHECK(found != numbers.end() && *found == number);
  return static_cast<std::uint32_t>(found - numbers.begin());
}

}  // namespace

ViewNumbers::ViewNumbers(const StateGraph& graph) : objects_{0} {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph[id].kind != NodeKind::kTensor && graph[id].kind != NodeKind::kStorage) continue;
    storages_.push_back(graph.view(id).storage);
    if (graph.view(id).object != 0) objects_.push_back(graph.view(id).object);
  }
  std::sort(storages_.begin(), storages_.end());
  std::sort(objects_.begin(), objects_.end());
  objects_.erase(std::unique(objects_.begin(), objects_.end()), objects_.end());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    if (kept > 0 && storages_[kept - 1] == storages_[i]) {
      shared_[kept - 1] = true;
    } else {
      storages_[kept++] = storages_[i];
      shared_.push_back(false);
    }
  }
  storages_.resize(kept);
}

std::uint32_t ViewNumbers::storage(const TensorView& view) const { return rank_in(storages_, view.storage); }

std::uint32_t ViewNumbers::object(const TensorView& view) const { return rank_in(objects_, view.object); }

bool ViewNumbers::shares_storage(const TensorView& view) const { return shared_[storage(view)]; }

}  // namespace tenplex
