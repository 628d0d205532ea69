// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/state_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace tenplex {
namespace {

using namespace std::string_literals;

const std::vector<TensorInfo> kTensors = {
    {"w", DType::kFloat32, {2, 3}}, {"v", DType::kFloat32, {3, 2}}, {"s", DType::kInt64, {}}};

Result<StateGraph> decode(const std::string& text, const std::map<std::string, std::string>& objects = {}) {
  JsonReader json(text);
  StateJsonSource source;
  source.tensors = kTensors;
  source.read_object = [&](const ObjectFile& file) -> Result<std::string> {
    const auto found = objects.find(file.path);
    if (found == objects.end()) return not_found("no such object");
    return found->second;
  };
  return decode_state(json, source);
}

/// Writes the graph and reads it again.
StateGraph there_and_back(const StateGraph& graph) {
  const auto encoded = encode_state(graph, kTensors, {.allow_objects = true, .object_prefix = "", .refusal_hint = ""});
  EXPECT_TRUE(encoded.has_value()) << encoded.error().to_string();
  std::map<std::string, std::string> objects;
  for (std::size_t k = 0; k < encoded->objects.size(); ++k) objects[encoded->objects[k].path] = encoded->pickles[k];
  auto decoded = decode(encoded->json, objects);
  EXPECT_TRUE(decoded.has_value()) << decoded.error().to_string() << encoded->json;
  return std::move(decoded).value();
}

NodeId root_of_one(StateGraph* graph, NodeId value) {
  graph->root = graph->add_dict({graph->add_string("x"), value});
  return value;
}

const Node& value_of_one(const StateGraph& graph) { return graph[graph[graph.root].children[1]]; }

// The example of docs/formats/manifest.md.
TEST(StateJson, DecodesTheDocumentedExample) {
  const auto graph = decode(R"({"root":0,"nodes":[["d",1,2,3,4],"w",["T","w","gp"],"step",["i","9007199254740993"]]})");
  ASSERT_TRUE(graph.has_value()) << graph.error().to_string();
  const Node& root = (*graph)[graph->root];
  ASSERT_EQ(root.kind, NodeKind::kDict);
  ASSERT_EQ(root.children.size(), 4U);
  EXPECT_EQ((*graph)[root.children[0]].text, "w");
  const TensorView view = graph->view(root.children[1]);
  EXPECT_EQ(view.tensor, TensorId(0));
  EXPECT_EQ(view.strides, (Dims{3, 1}));
  EXPECT_TRUE(view.requires_grad && view.parameter);
  EXPECT_EQ((*graph)[root.children[3]].integer, 9007199254740993);
}

TEST(StateJson, WritesTheDocumentedExample) {
  StateGraph graph;
  TensorView view{TensorId(0), 5, 0, {3, 1}, true, true};
  graph.root = graph.add_dict(
      {graph.add_string("w"), graph.add_tensor(view), graph.add_string("step"), graph.add_int(9007199254740993)});
  EXPECT_EQ(encode_state(graph, kTensors, {})->json,
            R"({"root":0,"nodes":[["d",1,2,3,4],"w",["T","w","gp"],"step",["i","9007199254740993"]]})");
}

TEST(StateJson, KeepsEveryBitOfAFloat) {
  for (const std::uint64_t bits :
       {0x0000000000000000ULL, 0x8000000000000000ULL, 0x7ff0000000000000ULL, 0xfff0000000000000ULL,
        0x7ff8000000000001ULL, 0x3fb999999999999aULL, 0x0000000000000001ULL, 0x7fefffffffffffffULL}) {
    StateGraph graph;
    root_of_one(&graph, graph.add_float(std::bit_cast<double>(bits)));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(value_of_one(there_and_back(graph)).real), bits);
  }
}

TEST(StateJson, KeepsScalarsApart) {
  StateGraph graph;
  Node big;
  big.kind = NodeKind::kBigInt;
  big.text = std::string("\x00\x00\x00\x00\x00\x00\x00\x00\x01", 9);
  Node array;
  array.kind = NodeKind::kByteArray;
  array.text = "\xff";
  graph.root = graph.add_list({graph.add_none(), graph.add_bool(true), graph.add_int(1), graph.add_float(1),
                               graph.add_int(INT64_MIN), graph.add_string("1"), graph.add_bytes(std::string("\0a", 2)),
                               graph.add(big), graph.add(array), graph.add_string("\xed\xa0\x80"),
                               graph.add_global("torch", "float32")});
  const StateGraph read = there_and_back(graph);
  EXPECT_TRUE(equal(graph, graph.root, read, read.root));
}

TEST(StateJson, KeepsTuplesDictsWithIntegerKeysAndKnownClasses) {
  StateGraph graph;
  ObjectParts ordered;
  ordered.callable = graph.add_global("collections", "OrderedDict");
  ordered.arguments = graph.add_tuple({});
  ordered.dict_items = {graph.add_string("b"), graph.add_int(1), graph.add_string("a"), graph.add_int(2)};
  ObjectParts size;
  size.callable = graph.add_global("torch", "Size");
  size.arguments = graph.add_tuple({graph.add_tuple({graph.add_int(2)})});
  graph.root = graph.add_dict({graph.add_int(0), graph.add_tuple({graph.add_object(ordered), graph.add_object(size)}),
                               graph.add_string("0"), graph.add_list({})});
  const auto encoded = encode_state(graph, kTensors, {});
  ASSERT_TRUE(encoded.has_value()) << encoded.error().to_string();
  EXPECT_TRUE(encoded->objects.empty());
  const StateGraph read = there_and_back(graph);
  EXPECT_TRUE(equal(graph, graph.root, read, read.root));
}

TEST(StateJson, KeepsSharedStoragesAndStrides) {
  StateGraph graph;
  const NodeId w = graph.add_tensor({TensorId(0), 7, 0, {3, 1}});
  const NodeId v = graph.add_tensor({TensorId(1), 7, 0, {1, 3}});
  const NodeId s = graph.add_tensor({TensorId(2), 9, 4, {}});
  graph.root = graph.add_list({w, v, s, w});
  const StateGraph read = there_and_back(graph);
  const auto& items = read[read.root].children;
  EXPECT_EQ(items[0], items[3]);
  EXPECT_EQ(read.view(items[0]).storage, read.view(items[1]).storage);
  EXPECT_EQ(read.view(items[1]).strides, (Dims{1, 3}));
  EXPECT_NE(read.view(items[2]).storage, read.view(items[0]).storage);
  EXPECT_EQ(read.view(items[2]).offset, 4);
}

TEST(StateJson, KeepsCyclesAndDepthWithoutRecursion) {
  StateGraph graph;
  NodeId inner = graph.add_list({});
  for (int depth = 0; depth < 200'000; ++depth) inner = graph.add_list({inner});
  graph.root = inner;
  graph[0].children.push_back(graph.root);
  const StateGraph read = there_and_back(graph);
  EXPECT_EQ(read.size(), graph.size());
}

TEST(StateJson, RefusesClassesThatMayNotStandInJson) {
  for (const char* name :
       {"posix\\nsystem", "builtins\\neval", "torch\\nload", "torch\\nTensor", "", "torch", "\\n", "a\\n",
        "collections\\nOrderedDict\\nI1\\n.", "collections.OrderedDict", "torch\\nfloat32\\n"}) {
    const auto alone = decode(fmt::format(R"({{"root":0,"nodes":[["g","{}"]]}})", name));
    ASSERT_FALSE(alone.has_value()) << name;
    EXPECT_EQ(alone.error().code(), ErrorCode::kCorrupt);
    const auto called = decode(
        fmt::format(R"({{"root":0,"nodes":[["o",1,2,null,null,[],[],false],["g","{}"],["t",3],"touch x"]]}})", name));
    EXPECT_FALSE(called.has_value()) << name;
  }
  const auto named = decode(R"({"root":0,"nodes":[["g","posix\nsystem"]]})");
  EXPECT_NE(named.error().message().find("'posix.system'"), std::string::npos) << named.error().to_string();
}

TEST(StateJson, RefusesToCallWhatIsAPlainValueOnly) {
  for (const char* name : {"builtins\\nlist", "torch\\nfloat32"}) {
    const std::string text = fmt::format(R"({{"root":0,"nodes":[["g","{}"]]}})", name);
    EXPECT_TRUE(decode(text).has_value()) << name;
    const auto called =
        decode(fmt::format(R"({{"root":0,"nodes":[["o",1,2,null,null,[],[],false],["g","{}"],["t"]]}})", name));
    EXPECT_FALSE(called.has_value()) << name;
  }
}

// A class may come from an object file, which is a pickle, but the JSON does not say how it is called.
TEST(StateJson, RefusesToCallAClassOfAnObjectFile) {
  StateGraph graph;
  graph.root = graph.add_global("posix", "system");
  const auto encoded = encode_state(graph, kTensors, {.allow_objects = true, .object_prefix = "", .refusal_hint = ""});
  ASSERT_TRUE(encoded.has_value()) << encoded.error().to_string();
  ASSERT_EQ(encoded->pickles.size(), 1U);
  const std::string objects = encoded->json.substr(encoded->json.find(",\"objects\""));
  const std::map<std::string, std::string> files = {{encoded->objects[0].path, encoded->pickles[0]}};
  EXPECT_TRUE(decode(R"({"root":0,"nodes":[["x",0]])" + objects, files).has_value());
  const auto called =
      decode(R"({"root":0,"nodes":[["o",1,2,null,null,[],[],false],["x",0],["t",3],"touch x"])" + objects, files);
  EXPECT_FALSE(called.has_value());
}

TEST(StateJson, PutsOtherNamesIntoObjectFiles) {
  StateGraph graph;
  root_of_one(&graph, graph.add_global("torch.nn.functional", "gelu"));
  const auto refused =
      encode_state(graph, kTensors, {.allow_objects = false, .object_prefix = "", .refusal_hint = "!"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(),
            "state 'x': the name torch.nn.functional.gelu of a class or function has no place here!");
  const StateGraph read = there_and_back(graph);
  EXPECT_TRUE(equal(graph, graph.root, read, read.root));
}

TEST(StateJson, NamesAnOpaqueObjectThatHasNoPlace) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("mylib.sched", "Cosine");
  parts.arguments = graph.add_tuple({});
  const NodeId inner = graph.add_dict({graph.add_string("lr"), graph.add_object(parts)});
  graph.root = graph.add_dict({graph.add_string("opt"), inner});
  const auto encoded =
      encode_state(graph, kTensors, {.allow_objects = false, .object_prefix = "", .refusal_hint = "!"});
  ASSERT_FALSE(encoded.has_value());
  EXPECT_EQ(encoded.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(encoded.error().message(), "state 'opt.lr': an opaque object of mylib.sched.Cosine has no place here!");
}

TEST(StateJson, KeepsAnOpaqueObjectWithATensorAsAPickle) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("mylib.sched", "Cosine");
  parts.arguments = graph.add_tuple({graph.add_tensor({TensorId(0), 3, 0, {3, 1}, true, false})});
  graph.root = graph.add_list({graph.add_object(parts), graph.add_tensor({TensorId(1), 3, 0, {2, 1}})});
  const StateGraph read = there_and_back(graph);
  const auto& items = read[read.root].children;
  ASSERT_TRUE(read.is_instance(items[0], "mylib.sched", "Cosine"));
  const NodeId tensor = read[read.object(items[0]).arguments].children[0];
  ASSERT_EQ(read[tensor].kind, NodeKind::kTensor);
  EXPECT_EQ(read.view(tensor).tensor, TensorId(0));
  EXPECT_EQ(read.view(tensor).storage, read.view(items[1]).storage);
}

TEST(StateJson, KeepsEveryNameOfATensorThatAnObjectHoldsTwice) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("mylib.sched", "Cosine");
  const std::vector<TensorInfo> tensors = {{"x.args.0", DType::kInt64, {}}, {"x.args.1", DType::kInt64, {}}};
  const auto leaf = [&](int tensor) { return graph.add_tensor({TensorId(tensor), 0, 0, {}, false, false, 1}); };
  parts.arguments = graph.add_tuple({leaf(0), leaf(1)});
  root_of_one(&graph, graph.add_object(parts));
  const auto encoded = encode_state(graph, tensors, {.allow_objects = true, .object_prefix = "", .refusal_hint = ""});
  ASSERT_TRUE(encoded.has_value()) << encoded.error().to_string();
  JsonReader json(encoded->json);
  StateJsonSource source;
  source.tensors = tensors;
  source.read_object = [&](const ObjectFile&) -> Result<std::string> { return std::string(encoded->pickles.at(0)); };
  const auto read = decode_state(json, source);
  ASSERT_TRUE(read.has_value()) << read.error().to_string();
  const NodeId object = (*read)[read->root].children[1];
  const auto& items = (*read)[read->object(object).arguments].children;
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(read->view(items[0]).tensor, TensorId(0));
  EXPECT_EQ(read->view(items[1]).tensor, TensorId(1));
  EXPECT_EQ(read->view(items[0]).object, 1U);
  EXPECT_EQ(read->view(items[1]).object, 1U);
}

/// A tree of two objects of the class m.C whose states are `first` and `second`.
void root_of_two_objects(StateGraph* graph, NodeId first, NodeId second) {
  std::vector<NodeId> items;
  for (const NodeId state : {first, second}) {
    ObjectParts parts;
    parts.callable = graph->add_global("m", "C");
    parts.arguments = graph->add_tuple({});
    parts.state = state;
    items.push_back(graph->add_object(std::move(parts)));
  }
  graph->root = graph->add_list(items);
}

TEST(StateJson, KeepsOnePartOfTwoObjectsOne) {
  StateGraph graph;
  const NodeId shared = graph.add_list({graph.add_int(7)});
  root_of_two_objects(&graph, shared, graph.add_tuple({shared, graph.add_int(1)}));
  graph[shared].children.push_back(graph[graph.root].children[1]);  // and the part leads back
  const StateGraph read = there_and_back(graph);
  const auto& items = read[read.root].children;
  const NodeId part = read.object(items[0]).state;
  ASSERT_EQ(read[part].kind, NodeKind::kList);
  EXPECT_EQ(read[read[part].children[0]].integer, 7);
  EXPECT_EQ(read[part].children[1], items[1]);
  EXPECT_EQ(read[read.object(items[1]).state].children[0], part);
}

TEST(StateJson, RefusesReferencesOfObjectFilesThatLeadNowhere) {
  const auto with_file = [](const std::string& pickle) {
    Hasher hasher;
    hasher.add_raw(as_bytes(pickle));
    return decode(fmt::format(R"({{"root":0,"nodes":[["l",1],["x",0]],"objects":[["f",{},"{}"]]}})", pickle.size(),
                              to_string(hasher.finish())),
                  {{"f", pickle}});
  };
  const std::string reference_to_root = "X\x04\0\0\0node"s + "K\0\x86Q"s;
  EXPECT_TRUE(with_file("\x80\x04]"s + reference_to_root + "a.").has_value());
  const auto no_node = with_file("\x80\x04]X\x04\0\0\0nodeK\x02\x86Qa."s);
  ASSERT_FALSE(no_node.has_value());
  EXPECT_EQ(no_node.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(no_node.error().message().find("an object file refers to no node"), std::string::npos);
  const auto nothing_else = with_file("\x80\x04"s + reference_to_root + ".");
  ASSERT_FALSE(nothing_else.has_value());
  EXPECT_EQ(nothing_else.error().message(), "it holds nothing but a reference");
}

TEST(StateJson, WritesSmallNumbersWhateverTheGraphHas) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("mylib.sched", "Cosine");
  parts.arguments = graph.add_tuple({graph.add_tensor({TensorId(0), 0xfffffff0, 2, {3, 1}, false, false, 0xffffffff})});
  graph.root = graph.add_list({graph.add_object(parts),
                               graph.add_tensor({TensorId(0), 0xfffffff0, 2, {3, 1}, false, false, 0xffffffff}),
                               graph.add_tensor({TensorId(2), 0x80000000, 1, {}})});
  const auto encoded = encode_state(graph, kTensors, {.allow_objects = true, .object_prefix = "", .refusal_hint = ""});
  ASSERT_TRUE(encoded.has_value()) << encoded.error().to_string();
  EXPECT_TRUE(
      encoded->json.starts_with(R"({"root":0,"nodes":[["l",1,2,3],["x",0],["T","w",1,2,[3,1],1],["T","s",0,1,[]]],)"))
      << encoded->json;
  const StateGraph read = there_and_back(graph);
  const auto& items = read[read.root].children;
  const NodeId inner = read[read.object(items[0]).arguments].children[0];
  EXPECT_EQ(read.view(inner).storage, 1U);
  EXPECT_EQ(read.view(inner).object, 1U);
}

TEST(StateJson, DoesNotReadDifferentViewsAsOneObject) {
  const auto graph =
      decode(R"({"root":0,"nodes":[["l",1,2,3],["T","w",0,0,[3,1],1],["T","v",0,0,[2,1],1],["T","w",0,0,[3,1],1]]})");
  ASSERT_TRUE(graph.has_value()) << graph.error().to_string();
  const auto& items = (*graph)[graph->root].children;
  EXPECT_EQ(graph->view(items[0]).object, 1U);
  EXPECT_EQ(graph->view(items[1]).object, 0U);
  EXPECT_EQ(graph->view(items[2]).object, 1U);
  EXPECT_EQ(graph->view(items[1]).storage, graph->view(items[0]).storage);
}

TEST(StateJson, RefusesToWriteAViewThatItWouldNotRead) {
  for (const bool inside : {false, true}) {
    for (const TensorView& view : {TensorView{TensorId(0), 0, INT64_MAX / 100, {3, 1}},
                                   TensorView{TensorId(0), 0, -1, {3, 1}}, TensorView{TensorId(0), 0, 0, {1}}}) {
      StateGraph graph;
      ObjectParts parts;
      parts.callable = graph.add_global("a", "B");
      parts.arguments = graph.add_tuple({graph.add_tensor(view)});
      graph.root = inside ? graph.add_object(parts) : parts.arguments;
      const auto encoded =
          encode_state(graph, kTensors, {.allow_objects = true, .object_prefix = "", .refusal_hint = ""});
      ASSERT_FALSE(encoded.has_value());
      EXPECT_EQ(encoded.error().code(), ErrorCode::kUnsupported) << encoded.error().to_string();
    }
  }
}

TEST(StateJson, NumbersUnnamedStoragesWhereTheCallerSays) {
  const std::string text = R"({"root":0,"nodes":[["l",1,2,3],["T","w"],["T","v",1,4,[2,1]],["T","s"]]})";
  for (const std::uint32_t first : {0U, 7U}) {
    JsonReader json(text);
    StateJsonSource source;
    source.tensors = kTensors;
    source.first_unnamed_storage = first;
    const auto graph = decode_state(json, source);
    ASSERT_TRUE(graph.has_value()) << graph.error().to_string();
    const auto& items = (*graph)[graph->root].children;
    EXPECT_EQ(graph->view(items[1]).storage, 1U);
    EXPECT_EQ(graph->view(items[0]).storage, first == 7 ? 7U : 2U);
    EXPECT_EQ(graph->view(items[2]).storage, first == 7 ? 8U : 3U);
  }
}

TEST(StateJson, RefusesAChangedObjectFile) {
  StateGraph graph;
  ObjectParts parts;
  parts.callable = graph.add_global("a", "B");
  parts.arguments = graph.add_tuple({});
  graph.root = graph.add_object(parts);
  auto encoded = encode_state(graph, kTensors, {.allow_objects = true, .object_prefix = "d/", .refusal_hint = ""});
  ASSERT_TRUE(encoded.has_value());
  EXPECT_EQ(encoded->objects[0].path, "d/object-00000.pkl");
  std::string& pickle = encoded->pickles[0];
  EXPECT_TRUE(decode(encoded->json, {{"d/object-00000.pkl", pickle}}).has_value());
  pickle[pickle.size() / 2] ^= 1;
  EXPECT_EQ(decode(encoded->json, {{"d/object-00000.pkl", pickle}}).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(decode(encoded->json, {{"d/object-00000.pkl", "x"}}).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(decode(encoded->json).error().code(), ErrorCode::kNotFound);
}

TEST(StateJson, RefusesWhatItWouldNotWrite) {
  for (const std::string text : {R"({"root":1,"nodes":[1]})",
                                 R"({"nodes":[1]})",
                                 R"({"root":0,"nodes":[["l",5]]})",
                                 R"({"root":0,"nodes":[["d",0]]})",
                                 R"({"root":0,"nodes":[["q"]]})",
                                 R"({"root":0,"nodes":[[]]})",
                                 R"({"root":0,"nodes":[{}]})",
                                 R"({"root":0,"nodes":[1.5]})",
                                 R"({"root":0,"nodes":[["T","nope"]]})",
                                 R"({"root":0,"nodes":[["T","w","x"]]})",
                                 R"({"root":0,"nodes":[["T","w",0,0,[1]]]})",
                                 R"({"root":0,"nodes":[["T","w",0,-1,[3,1]]]})",
                                 R"({"root":0,"nodes":[["T","w",0,0,[-3,1]]]})",
                                 R"({"root":0,"nodes":[["T","w",0,0,[4611686018427387904,1]]]})",
                                 R"({"root":0,"nodes":[["T","w",-1,0,[3,1]]]})",
                                 R"({"root":0,"nodes":[["x",0]]})",
                                 R"({"root":0,"nodes":[["f","7ff"]]})",
                                 R"({"root":0,"nodes":[["b","*"]]})",
                                 R"({"root":0,"nodes":[["i","1x"]]})",
                                 R"({"root":0,"nodes":[["o",null,null,null,null,[],[],false]]})",
                                 R"({"root":0,"nodes":[["o",0,0,null,null,[],[],false]]})",
                                 R"({"root":0,"nodes":[null],"more":1})"})
    EXPECT_FALSE(decode(text).has_value()) << text;
}

}  // namespace
}  // namespace tenplex
