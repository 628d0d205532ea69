// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/shared_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tenplex {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Lists may have a place, tuples not; the roots have one, and `placed`.
std::vector<NodeId> find(const StateGraph& graph, const std::vector<NodeId>& roots, std::set<NodeId> placed = {}) {
  placed.insert(roots.begin(), roots.end());
  std::vector<NodeId> nodes;
  for (const SharedPart& part : find_shared_parts(
           graph, roots, [&](NodeId id) { return placed.contains(id); },
           [&](NodeId id) { return graph[id].kind == NodeKind::kList; })) {
    EXPECT_EQ(part.root, roots[0]);
    nodes.push_back(part.node);
  }
  return nodes;
}

TEST(SharedParts, AreWhatTwoRootsHold) {
  StateGraph graph;
  const NodeId leaf = graph.add_list({});
  const NodeId shared = graph.add_list({leaf, leaf});
  const NodeId twice_in_one = graph.add_list({});
  const NodeId first = graph.add_list({shared, twice_in_one, twice_in_one});
  const NodeId second = graph.add_list({graph.add_list({shared})});
  EXPECT_THAT(find(graph, {first, second}), ElementsAre(shared, leaf));
  EXPECT_THAT(find(graph, {first}), IsEmpty());
  EXPECT_THAT(find(graph, {first, second}, {shared}), IsEmpty());
}

TEST(SharedParts, AreNotWhatLiesInOnePlaceBelowThem) {
  StateGraph graph;
  const NodeId below = graph.add_list({graph.add_int(1)});
  const NodeId shared = graph.add_list({below});
  EXPECT_THAT(find(graph, {graph.add_list({shared}), graph.add_list({shared})}), ElementsAre(shared));
}

TEST(SharedParts, AreWhatATupleOfTwoRootsHolds) {
  StateGraph graph;
  const NodeId inner = graph.add_list({});
  const NodeId tuple = graph.add_tuple({graph.add_tuple({inner}), graph.add_int(1)});
  EXPECT_THAT(find(graph, {graph.add_list({tuple}), graph.add_list({tuple})}), ElementsAre(inner));
}

TEST(SharedParts, MayHoldEachOtherAndTheRoots) {
  StateGraph graph;
  const NodeId shared = graph.add_list({});
  const NodeId first = graph.add_list({shared});
  const NodeId second = graph.add_list({shared, first});
  graph[shared].children = {second, shared};
  EXPECT_THAT(find(graph, {first, second}), ElementsAre(shared));
}

}  // namespace
}  // namespace tenplex
