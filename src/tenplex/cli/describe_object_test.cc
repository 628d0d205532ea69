// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/describe_object.h"

#include <gtest/gtest.h>

namespace tenplex::cli {
namespace {

TEST(DescribeObject, ShowsScalarsAsPythonWritesThem) {
  StateGraph graph;
  EXPECT_EQ(describe_object(graph, graph.add_none()), "None");
  EXPECT_EQ(describe_object(graph, graph.add_bool(true)), "True");
  EXPECT_EQ(describe_object(graph, graph.add_int(-7)), "-7");
  EXPECT_EQ(describe_object(graph, graph.add_float(0.5)), "0.5");
  EXPECT_EQ(describe_object(graph, graph.add_string("it's")), "'it\\'s'");
}

TEST(DescribeObject, EscapesControlCharactersAndCutsLongText) {
  StateGraph graph;
  EXPECT_EQ(describe_object(graph, graph.add_string("a\x1b[31m")), "'a\\x1b[31m'");
  EXPECT_EQ(describe_object(graph, graph.add_string("a\nb\u202e\xff")), "'a\\nb\\u202e\\xff'");
  EXPECT_EQ(describe_object(graph, graph.add_string(std::string(47, 'x') + "ééé")), "'" + std::string(47, 'x') + "…'");
  EXPECT_EQ(describe_object(graph, graph.add_global("a\x1b[31m", "B")), "a\\x1b[31m.B");
  EXPECT_EQ(describe_object(graph, graph.add_string(std::string(60, 'x'))), "'" + std::string(48, 'x') + "…'");
}

TEST(DescribeObject, CountsWhatContainersHold) {
  StateGraph graph;
  const NodeId one = graph.add_int(1);
  EXPECT_EQ(describe_object(graph, graph.add_list({one, one})), "list of 2");
  EXPECT_EQ(describe_object(graph, graph.add_dict({one, one})), "dict of 1");
  EXPECT_EQ(describe_object(graph, graph.add_bytes("abc")), "3 bytes");
}

TEST(DescribeObject, NamesTheClassOfAnObject) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("argparse", "Namespace");
  parts.arguments = graph.add_tuple({});
  EXPECT_EQ(describe_object(graph, graph.add_object(parts)), "argparse.Namespace object");
}

}  // namespace
}  // namespace tenplex::cli
