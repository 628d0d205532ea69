// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_writer.h"

#include <gtest/gtest.h>

#include "tenplex/formats/pickle/pickle_reader.h"

namespace tenplex {
namespace {

using namespace std::string_literals;

std::string write(const StateGraph& graph, NodeId node, int protocol = 2) {
  PickleWriteOptions options;
  options.protocol = protocol;
  auto bytes = write_pickle(graph, node, options);
  return bytes ? *bytes : bytes.error().to_string();
}

// The expected bytes are those of Python's pickle.dumps(value, 2), where it has no memo entry that nothing refers to.
TEST(PickleWriter, WritesScalarsAsPythonDoes) {
  StateGraph graph;
  EXPECT_EQ(write(graph, graph.add_none()), "\x80\x02N."s);
  EXPECT_EQ(write(graph, graph.add_bool(true)), "\x80\x02\x88."s);
  EXPECT_EQ(write(graph, graph.add_int(255)), "\x80\x02K\xff."s);
  EXPECT_EQ(write(graph, graph.add_int(65535)), "\x80\x02M\xff\xff."s);
  EXPECT_EQ(write(graph, graph.add_int(-1)), "\x80\x02J\xff\xff\xff\xff."s);
  EXPECT_EQ(write(graph, graph.add_int(std::int64_t{1} << 31)), "\x80\x02\x8a\x05\0\0\0\x80\0."s);
  EXPECT_EQ(write(graph, graph.add_int(-(std::int64_t{1} << 31) - 1)), "\x80\x02\x8a\x05\xff\xff\xff\x7f\xff."s);
  EXPECT_EQ(write(graph, graph.add_float(1.5)), "\x80\x02G\x3f\xf8\0\0\0\0\0\0."s);
  EXPECT_EQ(write(graph, graph.add_string("a")), "\x80\x02X\1\0\0\0aq\0."s);
  EXPECT_EQ(write(graph, graph.add_string("a"), 4), "\x80\x04\x8c\1a\x94."s);
  EXPECT_EQ(write(graph, graph.add_bytes("\xff"), 4),
            "\x80\x04"
            "C\1\xff."s);
}

TEST(PickleWriter, WritesBytesAsLatin1InProtocol2) {
  StateGraph graph;
  EXPECT_EQ(write(graph, graph.add_bytes("\xff")),
            "\x80\x02"
            "c_codecs\nencode\nq\0X\2\0\0\0\xc3\xbfX\6\0\0\0latin1q\1\x86R."s);
  EXPECT_EQ(write(graph, graph.add_bytes("")),
            "\x80\x02"
            "c__builtin__\nbytes\nq\0)R."s);
}

TEST(PickleWriter, WritesSharedNodesOnce) {
  StateGraph graph;
  const NodeId list = graph.add_list({});
  EXPECT_EQ(write(graph, graph.add_tuple({list, list})), "\x80\x02]q\0h\0\x86."s);
}

TEST(PickleWriter, WritesCycles) {
  StateGraph graph;
  const NodeId list = graph.add_list({});
  const NodeId tuple = graph.add_tuple({list});
  graph[list].children.push_back(tuple);
  EXPECT_EQ(write(graph, list),
            "\x80\x02]q\0h\0\x85"
            "a."s);
}

TEST(PickleWriter, WritesATupleWhoseListContainsIt) {
  StateGraph graph;
  const NodeId list = graph.add_list({});
  const NodeId tuple = graph.add_tuple({list});
  graph[list].children.push_back(tuple);
  // Python's own: the tuple is made inside the list, the outer attempt is dropped for it.
  EXPECT_EQ(write(graph, tuple), "\x80\x02]q\0h\0\x85q\1a0h\1."s);
}

TEST(PickleWriter, RefusesATupleThatContainsOnlyItself) {
  StateGraph graph;
  const NodeId tuple = graph.add_tuple({});
  graph[tuple].children.push_back(tuple);
  EXPECT_EQ(write_pickle(graph, tuple).error().code(), ErrorCode::kUnsupported);
}

TEST(PickleWriter, WritesItemsInBatchesOf1000) {
  StateGraph graph;
  std::vector<NodeId> items(1001, graph.add_none());
  const std::string bytes = write(graph, graph.add_list(std::move(items)));
  EXPECT_EQ(bytes, "\x80\x02]q\0("s + std::string(1000, 'N') + "eNa.");
}

TEST(PickleWriter, RefusesNamesThatEndInsideTheirText) {
  for (const std::string name : {"", "OrderedDict\nI1\n.", "a b", "a\r", "a..b", ".a", "a.", "1a", "a-b", "a\xff"})
    for (const int protocol : {2, 4}) {
      StateGraph graph;
      EXPECT_NE(write(graph, graph.add_global("collections", name), protocol).find("is no name"), std::string::npos)
          << name;
    }
  StateGraph graph;
  EXPECT_EQ(write(graph, graph.add_global("my.phi-1_5", "\xc3\xa9")),
            "\x80\x02"
            "cmy.phi-1_5\n\xc3\xa9\nq\0."s);
  EXPECT_NE(write(graph, graph.add_global("my mod", "a")).find("is no name"), std::string::npos);
}

TEST(PickleWriter, RefusesTensorsWithoutACallback) {
  StateGraph graph;
  EXPECT_EQ(write_pickle(graph, graph.add_tensor({})).error().code(), ErrorCode::kUnsupported);
}

TEST(PickleWriter, WritesKeywordObjectsInBothProtocols) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("m", "C");
  parts.arguments = graph.add_tuple({graph.add_int(1)});
  parts.keyword_arguments = graph.add_dict({graph.add_string("k"), graph.add_int(2)});
  parts.new_object = true;
  const NodeId object = graph.add_object(std::move(parts));
  EXPECT_EQ(write(graph, object, 4),
            "\x80\x04\x8c\1m\x94\x8c\1"
            "C\x94\x93\x94K\1\x85}\x94\x8c\1k\x94K\2s\x92\x94."s);
  EXPECT_EQ(write(graph, object, 2),
            "\x80\x02"
            "ccopy_reg\n__newobj_ex__\nq\0cm\nC\nq\1K\1\x85}q\2X\1\0\0\0kq\3K\2s\x87Rq\4."s);
}

TEST(PickleWriter, SurvivesDeepNesting) {
  StateGraph graph;
  NodeId node = graph.add_list({});
  for (int level = 0; level < 200000; ++level) node = graph.add_list({node});
  const auto bytes = write_pickle(graph, node);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(read_pickle(as_bytes(*bytes)));
}

}  // namespace
}  // namespace tenplex
