// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/state/state_numbers.h"

#include <gtest/gtest.h>

#include <array>

namespace tenplex {
namespace {

std::optional<std::int64_t> at(const StateGraph& graph, std::initializer_list<std::string_view> keys) {
  return number_at(graph, std::span(keys.begin(), keys.size()));
}

TEST(StateNumbers, AreFoundThroughDictsAndAttributes) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("argparse", "Namespace");
  parts.arguments = graph.add_tuple({});
  parts.state =
      graph.add_dict({graph.add_string("layers"), graph.add_int(4), graph.add_string("swiglu"), graph.add_bool(true),
                      graph.add_string("rate"), graph.add_float(0.5), graph.add_int(7), graph.add_int(8)});
  const NodeId arguments = graph.add_object(parts);
  graph.root = graph.add_dict({graph.add_string("args"), arguments});
  EXPECT_EQ(at(graph, {"args", "layers"}), 4);
  EXPECT_EQ(at(graph, {"args", "swiglu"}), 1);
  EXPECT_EQ(at(graph, {"args", "rate"}), std::nullopt);
  EXPECT_EQ(at(graph, {"args", "heads"}), std::nullopt);
  EXPECT_EQ(at(graph, {"args", "layers", "deeper"}), std::nullopt);
  EXPECT_EQ(at(StateGraph(), {"args"}), std::nullopt);
}

}  // namespace
}  // namespace tenplex
