// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What several objects hold that are written as files of their own. A file refers to such a part by its place in the
// tree, so the part needs one:
//
//   {"a": A(p=h), "b": B(p=h)}     A ─► h ◄─ B      h gets a place of its own beside A and B
//
// Pure function. Threads: safe together.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

struct SharedPart {
  NodeId node;
  NodeId root;  ///< the first of the roots that lead to it
};

/// Nodes for which `may_have_place` holds, that at least two of `roots` lead to and that stand in at least two places:
/// once these have places, every such node is reached from one root or part only. Ways end at nodes that have a place
/// by now (`has_place`) and may have one, except at the roots themselves.
/// Cost: every node below the roots is visited at most twice.
std::vector<SharedPart> find_shared_parts(const StateGraph& graph, std::span<const NodeId> roots,
                                          const std::function<bool(NodeId)>& has_place,
                                          const std::function<bool(NodeId)>& may_have_place);

}  // namespace tenplex
