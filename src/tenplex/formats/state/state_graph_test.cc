// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_graph.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TensorView view_of(std::size_t tensor, Dims strides) {
  TensorView view;
  view.tensor = TensorId(tensor);
  view.storage = static_cast<std::uint32_t>(tensor) + 10;
  view.offset = std::int64_t{1} << 40;
  view.strides = strides;
  view.object = 3;
  return view;
}

TEST(StateGraph, KeepsAndChangesViews) {
  StateGraph graph;
  TensorView first = view_of(0, {8, 1});
  first.requires_grad = true;
  const NodeId a = graph.add_tensor(first);
  const NodeId b = graph.add_tensor(view_of(1, {8, 1}));
  EXPECT_EQ(graph.view(a), first);
  EXPECT_EQ(graph.view(b), view_of(1, {8, 1}));
  TensorView changed = view_of(2, {1, 4, 0});
  changed.parameter = true;
  graph.set_view(a, changed);
  EXPECT_EQ(graph.view(a), changed);
  EXPECT_EQ(graph.view(b), view_of(1, {8, 1}));
}

TEST(StateGraph, DropsWhatCameAfterAMark) {
  StateGraph graph;
  const NodeId kept = graph.add_tensor(view_of(0, {1}));
  const StateGraph::Mark mark = graph.mark();
  for (int round = 0; round < 3; ++round) {
    ObjectParts parts;
    parts.callable = graph.add_global("m", "C");
    parts.arguments = graph.add_tuple({graph.add_tensor(view_of(1, {2, 1}))});
    const NodeId object = graph.add_object(std::move(parts));
    EXPECT_EQ(object, 4U);
    graph.rollback(mark);
    EXPECT_EQ(graph.size(), 1U);
  }
  EXPECT_EQ(graph.view(kept), view_of(0, {1}));
  EXPECT_EQ(graph.view(graph.add_tensor(view_of(5, {7}))), view_of(5, {7}));
}

TEST(StateGraph, IsAValue) {
  StateGraph graph;
  graph.root = graph.add_list({graph.add_string("a"), graph.add_float(0.5)});
  StateGraph copy = graph;
  copy[copy[copy.root].children[0]].text = "b";
  const NodeId number = copy.add_int(-7);
  copy[copy.root].children.push_back(number);
  EXPECT_EQ(graph[graph[graph.root].children[0]].text, "a");
  EXPECT_EQ(graph[graph.root].children.size(), 2U);
  EXPECT_EQ(copy[copy[copy.root].children[2]].integer, -7);
  EXPECT_EQ(copy[copy[copy.root].children[1]].real, 0.5);
}

}  // namespace
}  // namespace tenplex
