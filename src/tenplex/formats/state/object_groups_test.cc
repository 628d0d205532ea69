// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/object_groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenplex {
namespace {

const std::vector<TensorInfo> kTensors = {{"a", DType::kFloat32, {8, 2}},
                                          {"b", DType::kFloat32, {8, 2}},
                                          {"short", DType::kFloat32, {5, 2}},
                                          {"other type", DType::kInt32, {8, 2}}};

TensorView view_of_object(int tensor, std::uint32_t object) {
  TensorView view;
  view.tensor = TensorId(tensor);
  view.strides = {2, 1};
  view.object = object;
  return view;
}

/// The object numbers of leaves of these views.
std::vector<std::uint32_t> split(const std::vector<TensorView>& views) {
  StateGraph graph;
  for (const TensorView& view : views) graph.add_tensor(view);
  split_unlike_objects(kTensors, &graph);
  std::vector<std::uint32_t> objects;
  for (NodeId id = 0; id < graph.size(); ++id) objects.push_back(graph.view(id).object);
  return objects;
}

using Objects = std::vector<std::uint32_t>;

TEST(SplitUnlikeObjects, KeepsNumbersOfLeavesThatAreAlike) {
  EXPECT_EQ(split({view_of_object(0, 3), view_of_object(1, 3), view_of_object(2, 7), view_of_object(3, 0)}),
            (Objects{3, 3, 7, 0}));
}

TEST(SplitUnlikeObjects, TakesTheNumberOfALeafWithAnotherShapeOrType) {
  EXPECT_EQ(split({view_of_object(0, 3), view_of_object(2, 3)}), (Objects{0, 0}));
  EXPECT_EQ(split({view_of_object(0, 3), view_of_object(2, 3), view_of_object(1, 3)}), (Objects{3, 0, 3}));
  EXPECT_EQ(split({view_of_object(3, 3), view_of_object(0, 3), view_of_object(1, 3)}), (Objects{0, 3, 3}));
}

TEST(SplitUnlikeObjects, GivesEveryKindOfViewANumberOfItsOwn) {
  EXPECT_EQ(split({view_of_object(2, 3), view_of_object(0, 3), view_of_object(2, 3), view_of_object(1, 3),
                   view_of_object(0, 5), view_of_object(1, 5)}),
            (Objects{3, 6, 3, 6, 5, 5}));
}

TEST(SplitUnlikeObjects, ComparesAllOfAView) {
  TensorView moved = view_of_object(1, 1), transposed = moved, elsewhere = moved, wrapped = moved,
             with_gradient = moved;
  moved.offset = 1;
  transposed.strides = {1, 8};
  elsewhere.storage = 1;
  wrapped.parameter = true;
  with_gradient.requires_grad = true;
  for (const TensorView& view : {moved, transposed, elsewhere, wrapped, with_gradient})
    EXPECT_EQ(split({view_of_object(0, 1), view}), (Objects{0, 0}));
}

TEST(SplitUnlikeObjects, LeavesNoNumberWhereThereIsNoTensor) {
  EXPECT_EQ(split({view_of_object(9, 1), view_of_object(0, 1), view_of_object(1, 1)}), (Objects{0, 1, 1}));
  StateGraph graph;
  graph[graph.add_tensor(view_of_object(0, 1))].kind = NodeKind::kStorage;
  split_unlike_objects(kTensors, &graph);
  EXPECT_EQ(graph.view(0).object, 0U);
}

}  // namespace
}  // namespace tenplex
