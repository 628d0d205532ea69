// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/lookup.h"

#include <gtest/gtest.h>

#include "tenplex/formats/state/graph_copy.h"

namespace tenplex {
namespace {

StateGraph sample() {
  StateGraph graph;
  const NodeId inner = graph.add_dict({graph.add_int(3), graph.add_string("three")});
  graph.root = graph.add_dict({graph.add_string("a"), graph.add_int(7), graph.add_string("inner"), inner});
  return graph;
}

TEST(Lookup, FindsItemsByTextAndByNumber) {
  const StateGraph graph = sample();
  EXPECT_EQ(integer_of(graph, find_item(graph, graph.root, "a")), 7);
  const NodeId inner = find_item(graph, graph.root, "inner");
  EXPECT_EQ(text_of(graph, find_item(graph, inner, std::int64_t{3})), "three");
  EXPECT_EQ(find_item(graph, graph.root, "b"), kNoNode);
  EXPECT_EQ(find_item(graph, kNoNode, "a"), kNoNode);
  EXPECT_FALSE(integer_of(graph, kNoNode).has_value());
}

TEST(Lookup, ReadsSizes) {
  StateGraph graph;
  ObjectParts size;
  size.callable = graph.add_global("torch", "Size");
  size.arguments = graph.add_tuple({graph.add_tuple({graph.add_int(2), graph.add_int(5)})});
  const NodeId node = graph.add_object(std::move(size));
  EXPECT_EQ(dims_of(graph, node), (Dims{2, 5}));
  EXPECT_EQ(dims_of(graph, graph.add_list({})), Dims{});
  EXPECT_FALSE(dims_of(graph, graph.add_list({graph.add_int(-1)})).has_value());
  EXPECT_FALSE(dims_of(graph, graph.add_list({graph.add_string("2")})).has_value());
}

TEST(Lookup, SetsAndRemovesItems) {
  StateGraph graph = sample();
  const NodeId eight = graph.add_int(8);
  set_item(graph, graph.root, "a", eight);
  set_item(graph, graph.root, "b", eight);
  EXPECT_EQ(find_item(graph, graph.root, "a"), eight);
  EXPECT_EQ(find_item(graph, graph.root, "b"), eight);
  remove_item(graph, graph.root, "a");
  EXPECT_EQ(find_item(graph, graph.root, "a"), kNoNode);
  EXPECT_EQ(items_of(graph, graph.root).size(), 4U);
}

TEST(GraphCopy, HasWhatTheNodeLeadsToOnce) {
  StateGraph from = sample();
  const NodeId shared = from.add_list({});
  from[shared].children = {shared, from.root};  // a cycle
  set_item(from, from.root, "again", shared);
  from.add_string("nothing leads here");
  StateGraph to;
  to.add_none();
  to.root = copy_reachable(from, from.root, &to, [](const TensorView& view) { return view; });
  EXPECT_EQ(to.size(), 1 + from.size() - 1);
  const NodeId list = find_item(to, to.root, "again");
  EXPECT_EQ(to[list].children, (std::vector<NodeId>{list, to.root}));
  EXPECT_EQ(integer_of(to, find_item(to, to.root, "a")), 7);
}

TEST(GraphCopy, ChangesViews) {
  StateGraph from;
  TensorView view;
  view.storage = 3;
  view.strides = {1};
  from.root = from.add_list({from.add_tensor(view)});
  StateGraph to;
  to.root = copy_reachable(from, from.root, &to, [](TensorView changed) {
    changed.storage += 10;
    return changed;
  });
  EXPECT_EQ(to.view(to[to.root].children[0]).storage, 13U);
}

}  // namespace
}  // namespace tenplex
