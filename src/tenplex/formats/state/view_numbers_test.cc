// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/view_numbers.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TensorView view_of_storage(std::uint32_t storage, std::uint32_t object) {
  TensorView view;
  view.tensor = TensorId(0);
  view.storage = storage;
  view.object = object;
  return view;
}

TEST(ViewNumbers, CloseGapsAndKeepTheOrder) {
  StateGraph graph;
  const NodeId high = graph.add_tensor(view_of_storage(0x80000007, 9));
  const NodeId low = graph.add_tensor(view_of_storage(4, 0));
  const NodeId same = graph.add_tensor(view_of_storage(0x80000007, 0xffffffff));
  const NodeId bare = graph.add_tensor(view_of_storage(5, 0));
  graph[bare].kind = NodeKind::kStorage;
  const ViewNumbers numbers(graph);
  EXPECT_EQ(numbers.storage(graph.view(low)), 0U);
  EXPECT_EQ(numbers.storage(graph.view(bare)), 1U);
  EXPECT_EQ(numbers.storage(graph.view(high)), 2U);
  EXPECT_EQ(numbers.storage(graph.view(same)), 2U);
  EXPECT_EQ(numbers.object(graph.view(low)), 0U);
  EXPECT_EQ(numbers.object(graph.view(high)), 1U);
  EXPECT_EQ(numbers.object(graph.view(same)), 2U);
  EXPECT_TRUE(numbers.shares_storage(graph.view(high)));
  EXPECT_FALSE(numbers.shares_storage(graph.view(low)));
}

TEST(ViewNumbers, HaveNoObjectWhereTheGraphHasNone) {
  StateGraph graph;
  const NodeId only = graph.add_tensor(view_of_storage(0, 0));
  EXPECT_EQ(ViewNumbers(graph).object(graph.view(only)), 0U);
  EXPECT_EQ(ViewNumbers(graph).storage(graph.view(only)), 0U);
}

}  // namespace
}  // namespace tenplex
