// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ViewNumbers: the storage and object numbers of a graph's views, closed up. A graph that several files were put
// together to may have numbers with wide gaps between; a file has small ones.
//
//   storages in the graph  7, 2147483648, 7   ──►  0, 1, 0
//   objects in the graph   0, 5, 0            ──►  0, 1, 0        (0: no object)
//
// The order of the numbers stays, so closed-up numbers are left as they are. Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

class ViewNumbers {
 public:
  /// Counts all views of the graph, whether the root leads to them or not.
  explicit ViewNumbers(const StateGraph& graph);

  /// Requires: the view is one of the graph's.
  std::uint32_t storage(const TensorView& view) const;
  std::uint32_t object(const TensorView& view) const;
  /// True if another view of the graph lies in the same storage.
  bool shares_storage(const TensorView& view) const;

 private:
  std::vector<std::uint32_t> storages_;  // each once, ascending
  std::vector<bool> shared_;             // by closed-up storage number
  std::vector<std::uint32_t> objects_;   // each once, ascending, from 0
};

}  // namespace tenplex
