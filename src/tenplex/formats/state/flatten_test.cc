// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/unflattener.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const StateGraph& graph) {
  auto leaves = flatten(graph);
  if (!leaves) return {leaves.error().to_string()};
  std::vector<std::string> names;
  for (std::size_t leaf = 0; leaf < leaves->size(); ++leaf) names.push_back(leaves->name(leaf));
  return names;
}

NodeId text(StateGraph& graph, const char* value) { return graph.add_string(value); }

// The expected names are those of torch.distributed.checkpoint's flatten_state_dict (torch 2.13).
TEST(Flatten, OpensDictsAndListsWithTensorsOrDicts) {
  StateGraph graph;
  const NodeId tensor = graph.add_tensor({});
  const NodeId group = graph.add_dict({text(graph, "lr"), graph.add_float(0.1), text(graph, "params"),
                                       graph.add_list({graph.add_int(0), graph.add_int(1)})});
  graph.root = graph.add_dict({text(graph, "m"), graph.add_dict({text(graph, "w"), tensor}),                    //
                               text(graph, "groups"), graph.add_list({group}),                                  //
                               text(graph, "l"), graph.add_list({graph.add_list({tensor}), graph.add_int(3)}),  //
                               text(graph, "t"), graph.add_tuple({tensor}),                                     //
                               text(graph, "plain"), graph.add_list({graph.add_int(1)}),                        //
                               text(graph, "empty"), graph.add_dict({}),                                        //
                               graph.add_int(7), graph.add_none()});
  EXPECT_THAT(names(graph), ElementsAre("m.w", "groups.0.lr", "groups.0.params", "l.0.0", "l.1", "t", "plain", "7"));
}

TEST(Flatten, NamesBothPlacesOfOneName) {
  StateGraph graph;
  const NodeId inner = graph.add_dict({graph.add_int(0), graph.add_none(), text(graph, "0"), graph.add_none()});
  graph.root = graph.add_dict({text(graph, "a"), inner});
  EXPECT_THAT(names(graph), ElementsAre(HasSubstr("'a.0': ['a'][0] and ['a']['0']")));
  StateGraph dotted;
  const NodeId list = dotted.add_list({dotted.add_tensor({})});
  dotted.root = dotted.add_dict({text(dotted, "l.0"), dotted.add_none(), text(dotted, "l"), list});
  EXPECT_THAT(names(dotted), ElementsAre(HasSubstr("'l.0': ['l.0'] and ['l'][0]")));
}

TEST(Flatten, NamesKeysAsPythonPrintsThem) {
  StateGraph graph;
  const NodeId tuple = graph.add_tuple({graph.add_int(1), text(graph, "a"), graph.add_tuple({graph.add_bool(true)})});
  graph.root = graph.add_dict({graph.add_float(1), graph.add_none(), graph.add_float(1e-5), graph.add_none(), tuple,
                               graph.add_none(), graph.add_none(), graph.add_none(),
                               graph.add_global("torch", "float32"), graph.add_none()});
  EXPECT_THAT(names(graph), ElementsAre("1.0", "1e-05", "(1, 'a', (True,))", "None", "torch.float32"));
  StateGraph object_key;
  object_key.root = object_key.add_dict({object_key.add_bytes("x"), object_key.add_none()});
  EXPECT_EQ(flatten(object_key).error().code(), ErrorCode::kUnsupported);
}

TEST(Flatten, RefusesTwoLeavesOfOneName) {
  StateGraph graph;
  const NodeId inner = graph.add_dict({text(graph, "b"), graph.add_int(1)});
  graph.root = graph.add_dict({text(graph, "a"), inner, text(graph, "a.b"), graph.add_int(2)});
  EXPECT_THAT(names(graph)[0], HasSubstr("'a.b'"));
}

TEST(Flatten, SaysWhereAKeyIsThatHasNoText) {
  StateGraph graph;
  graph.root = graph.add_dict({graph.add_bytes("x"), graph.add_tensor({})});
  EXPECT_THAT(names(graph), ElementsAre("in the outermost dict: a dict key is no text, number or tuple of such"));
  graph.root = graph.add_dict({text(graph, "a"), graph.root});
  EXPECT_THAT(names(graph), ElementsAre("in 'a': a dict key is no text, number or tuple of such"));
}

TEST(Flatten, RefusesCyclesOfDictsAndOfLists) {
  StateGraph dicts;
  dicts.root = dicts.add_dict({});
  dicts[dicts.root].children = {dicts.add_string("self"), dicts.root};
  EXPECT_EQ(flatten(dicts).error().code(), ErrorCode::kUnsupported);
  StateGraph lists;
  const NodeId list = lists.add_list({});
  lists[list].children = {list};
  lists.root = lists.add_dict({lists.add_string("l"), list});
  EXPECT_EQ(flatten(lists).error().code(), ErrorCode::kUnsupported);
}

TEST(Flatten, RefusesSharedDictsThatExplode) {
  StateGraph graph;
  NodeId node = graph.add_dict({text(graph, "x"), graph.add_int(1)});
  for (int level = 0; level < 64; ++level) node = graph.add_dict({text(graph, "a"), node, text(graph, "b"), node});
  graph.root = node;
  EXPECT_EQ(flatten(graph).error().code(), ErrorCode::kUnsupported);
}

TEST(Flatten, RefusesNestingThatPythonCouldNotWrite) {
  StateGraph graph;
  NodeId node = graph.add_int(1);
  for (int level = 0; level < 100000; ++level) node = graph.add_dict({text(graph, "a"), node});
  graph.root = node;
  EXPECT_EQ(flatten(graph).error().code(), ErrorCode::kUnsupported);
}

TEST(LeafList, HasTheObjectsAlone) {
  StateGraph graph;
  const NodeId step = graph.add_int(7);
  graph.root = graph.add_dict(
      {text(graph, "w"), graph.add_tensor({}), text(graph, "o"), graph.add_dict({text(graph, "step"), step})});
  const auto leaves = flatten(graph);
  ASSERT_TRUE(leaves) << leaves.error().to_string();
  const LeafList objects = leaves->objects();
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects.name(0), "o.step");
  EXPECT_EQ(objects.node(0), step);
  EXPECT_THAT(objects.path(0), ElementsAre(PathStep{false, 0, "o"}, PathStep{false, 0, "step"}));
}

TEST(Flatten, RefusesTwoTensorsOfOneName) {
  StateGraph graph;
  graph.root = graph.add_dict({text(graph, "a.b"), graph.add_tensor({}), text(graph, "a"),
                               graph.add_dict({text(graph, "b"), graph.add_tensor({})})});
  const auto leaves = flatten(graph);
  EXPECT_EQ(leaves.error().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(leaves.error().to_string(), HasSubstr("'a.b': ['a.b'] and ['a']['b']"));
}

TEST(Flatten, FindsNothingWithoutTree) {
  const auto leaves = flatten(StateGraph());
  ASSERT_TRUE(leaves);
  EXPECT_TRUE(leaves->empty());
  EXPECT_TRUE(leaves->objects().empty());
}

TEST(LeafList, GivesPlacesInPython) {
  StateGraph graph;
  const NodeId tuple = graph.add_tuple({graph.add_int(1), text(graph, "x")});
  graph.root =
      graph.add_dict({text(graph, "m"),
                      graph.add_list({graph.add_tensor({}),
                                      graph.add_dict({tuple, graph.add_int(5), graph.add_int(0), graph.add_int(6)})})});
  const auto leaves = flatten(graph);
  ASSERT_TRUE(leaves) << leaves.error().to_string();
  ASSERT_EQ(leaves->size(), 3U);
  EXPECT_EQ(leaves->name(1), "m.1.(1, 'x')");
  EXPECT_EQ(leaves->subscripts(0), "['m'][0]");
  EXPECT_EQ(leaves->subscripts(1), "['m'][1][(1, 'x')]");
  EXPECT_EQ(leaves->subscripts(2), "['m'][1][0]");
  EXPECT_THAT(leaves->path(2), ElementsAre(PathStep{false, 0, "m"}, PathStep{true, 1, ""}, PathStep{false, 0, "0"}));
}

TEST(TensorNames, ReachIntoTuplesAndObjects) {
  StateGraph graph;
  const NodeId in_tuple = graph.add_tensor({});
  const NodeId in_state = graph.add_tensor({});
  ObjectParts parts;
  parts.callable = graph.add_global("m", "C");
  parts.arguments = graph.add_tuple({});
  parts.state = graph.add_dict({text(graph, "w"), in_state});
  graph.root = graph.add_dict({text(graph, "t"), graph.add_tuple({graph.add_int(0), in_tuple}), text(graph, "o"),
                               graph.add_object(std::move(parts))});
  const auto found = tensor_names(graph);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_THAT(*found,
              ElementsAre(std::pair{in_tuple, std::string("t.1")}, std::pair{in_state, std::string("o.state.w")}));
}

TEST(Unflatten, UndoesFlatten) {
  StateGraph graph;
  const NodeId tensor = graph.add_tensor({});
  graph.root = graph.add_dict({text(graph, "m"), graph.add_dict({text(graph, "w"), tensor}), text(graph, "l"),
                               graph.add_list({graph.add_dict({text(graph, "k"), graph.add_int(1)}), tensor})});
  const auto leaves = flatten(graph);
  ASSERT_TRUE(leaves);
  Unflattener unflattener(graph, leaves->size());
  for (std::size_t leaf = 0; leaf < leaves->size(); ++leaf)
    ASSERT_TRUE(unflattener.place(leaves->path(leaf), leaves->node(leaf)));
  EXPECT_TRUE(equal(graph, graph.root, graph, unflattener.finish()));
}

TEST(Unflatten, RefusesContradictions) {
  StateGraph graph;
  const NodeId leaf = graph.add_int(1);
  const PathStep a{false, 0, "a"};
  const PathStep b{false, 0, "b"};
  const PathStep far{true, 1'000'000'000'000, ""};
  const PathStep before{true, -1, ""};
  using Path = std::vector<PathStep>;
  for (const std::vector<Path>& paths :
       {std::vector<Path>{{a}, {a}}, {{a}, {a, b}}, {{a, far}}, {{a, before}}, {Path{}}}) {
    Unflattener unflattener(graph, paths.size());
    for (std::size_t i = 0; i + 1 < paths.size(); ++i) ASSERT_TRUE(unflattener.place(paths[i], leaf));
    EXPECT_EQ(unflattener.place(paths.back(), leaf).error().code(), ErrorCode::kCorrupt);
  }
}

TEST(Equal, TellsValuesAndStructureApart) {
  StateGraph graph;
  const NodeId one = graph.add_list({graph.add_int(1), text(graph, "x")});
  const NodeId same = graph.add_list({graph.add_int(1), text(graph, "x")});
  EXPECT_TRUE(equal(graph, one, graph, same));
  EXPECT_FALSE(equal(graph, one, graph, graph.add_list({graph.add_int(2), text(graph, "x")})));
  EXPECT_FALSE(equal(graph, one, graph, graph.add_tuple({graph.add_int(1), text(graph, "x")})));
  EXPECT_FALSE(equal(graph, one, graph, graph.add_list({graph.add_int(1)})));
  EXPECT_FALSE(equal(graph, graph.add_float(0.0), graph, graph.add_float(-0.0)));
}

}  // namespace
}  // namespace tenplex
