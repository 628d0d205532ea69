// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/shared_nodes.h"

#include <gtest/gtest.h>

#include "tenplex/formats/state/flatten.h"

namespace tenplex::dcp {
namespace {

TensorView view_of_tensor(std::size_t tensor) {
  TensorView view;
  view.tensor = TensorId(tensor);
  view.storage = static_cast<std::uint32_t>(tensor);
  view.strides = {1};
  return view;
}

std::vector<SharedNode> shared_in(const StateGraph& graph) {
  const auto leaves = flatten(graph);
  EXPECT_TRUE(leaves) << leaves.error().to_string();
  return find_shared_nodes(graph, *leaves);
}

// {"a": (t, 1), "b": (2, t)} with t = (tensor,), the example of the header.
TEST(SharedNodes, AreFoundOnceEachWithoutWhatLiesBelow) {
  StateGraph graph;
  const NodeId t = graph.add_tuple({graph.add_tensor(view_of_tensor(0))});
  const NodeId a = graph.add_tuple({t, graph.add_int(1)});
  const NodeId b = graph.add_tuple({graph.add_int(2), t, t});
  graph.root = graph.add_dict({graph.add_string("a"), a, graph.add_string("b"), b});
  EXPECT_EQ(shared_in(graph), (std::vector<SharedNode>{{{3, 1}, {1, 0}}}));
}

TEST(SharedNodes, OfAnOpenedContainerAreFirstInTheTree) {
  StateGraph graph;
  const NodeId d = graph.add_dict({graph.add_string("x"), graph.add_tensor(view_of_tensor(0))});
  graph.root =
      graph.add_dict({graph.add_string("t"), graph.add_tuple({d}), graph.add_string("d"), d, graph.add_string("e"), d});
  EXPECT_EQ(shared_in(graph), (std::vector<SharedNode>{{{1, 0}, {3}}}));
}

TEST(SharedNodes, AreNotTheSecondNamesOfOneObject) {
  StateGraph graph;
  const NodeId t = graph.add_tuple({graph.add_list({graph.add_int(1)})});
  graph.root = graph.add_dict({graph.add_string("a"), t, graph.add_string("b"), t});
  EXPECT_EQ(shared_in(graph), std::vector<SharedNode>());
}

TEST(SharedNodes, AreNoAtomsAndNothingWithinOneObject) {
  StateGraph graph;
  const NodeId one = graph.add_int(1);
  const NodeId list = graph.add_list({one});
  const NodeId empty = graph.add_tuple({});
  graph.root = graph.add_dict({graph.add_string("a"), graph.add_tuple({one, list, list, empty}), graph.add_string("b"),
                               graph.add_tuple({one, empty})});
  EXPECT_EQ(shared_in(graph), std::vector<SharedNode>());
}

// As DCP gives it back: a = (x, 1), b = (y,) of two tensors, the second of `second`'s kind.
BuiltState read_back(const TensorInfo& second) {
  BuiltState built;
  StateGraph& graph = built.graph;
  const NodeId a = graph.add_tuple({graph.add_tensor(view_of_tensor(1)), graph.add_int(1)});
  const NodeId b = graph.add_tuple({graph.add_tensor(view_of_tensor(2))});
  graph.root = graph.add_dict({graph.add_string("a"), a, graph.add_string("b"), b});
  built.inner.resize(2);
  built.inner[0].tensor = {"x", DType::kFloat32, {2}};
  built.inner[0].chunk.tensor = TensorId(1);
  built.inner[1].tensor = second;
  built.inner[1].chunk.tensor = TensorId(2);
  return built;
}

const std::vector<TensorInfo> kOutside = {{"w", DType::kFloat32, {2}}};

TEST(SharedNodes, BecomeOneAndTheSecondTensorGoes) {
  for (const bool other_way : {false, true}) {
    BuiltState built = read_back({"y", DType::kFloat32, {2}});
    SharedNode node{{3, 0}, {1, 0}};
    if (other_way) std::swap(node.place, node.first);
    const auto joined = join_shared_nodes(std::vector<SharedNode>{node}, kOutside, &built);
    ASSERT_TRUE(joined) << joined.error().to_string();
    const StateGraph& graph = built.graph;
    const std::vector<NodeId>& items = graph[graph.root].children;
    EXPECT_EQ(graph[items[1]].children[0], graph[items[3]].children[0]);
    EXPECT_EQ(graph.view(graph[items[3]].children[0]).tensor, TensorId(1));
    ASSERT_EQ(built.inner.size(), 1U);
    EXPECT_EQ(built.inner[0].tensor.name, other_way ? "y" : "x");
    EXPECT_EQ(built.inner[0].chunk.tensor, TensorId(1));
  }
}

TEST(SharedNodes, ThatCannotBeAreRefused) {
  const std::vector<std::vector<SharedNode>> lies = {
      {{{3, 1}, {1, 0}}},                    // an edge too far
      {{{-1}, {1, 0}}},                      // a negative one
      {{{3, 0, 0}, {1, 0}}},                 // below a tensor
      {{{3, 0}, {1}}},                       // a tensor and a tuple
      {{{}, {}}},                            // the root
      {{{3, 0}, {1, 0}}, {{1, 0}, {3, 0}}},  // round in a circle
      {{{3, 0}, {3, 0}}},                    // itself
  };
  for (const std::vector<SharedNode>& lie : lies) {
    BuiltState built = read_back({"y", DType::kFloat32, {2}});
    const auto joined = join_shared_nodes(lie, kOutside, &built);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code(), ErrorCode::kCorrupt);
  }
  for (const TensorInfo& other : {TensorInfo{"y", DType::kFloat32, {3}}, TensorInfo{"y", DType::kInt32, {2}}}) {
    BuiltState built = read_back(other);
    EXPECT_FALSE(join_shared_nodes(std::vector<SharedNode>{{{3, 0}, {1, 0}}}, kOutside, &built));
  }
}

}  // namespace
}  // namespace tenplex::dcp
