// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

Result<PickleDocument> read(const std::string& bytes, const PickleOptions& options = {}) {
  return read_pickle(as_bytes(bytes), options);
}

Error error_of(const std::string& bytes, const PickleOptions& options = {}) {
  auto document = read(bytes, options);
  if (document) return internal_error("no error");
  return std::move(document).error();
}

TEST(PickleReader, ReadsNumbersOfEveryOpcode) {
  const auto document =
      read("\x80\x02(K\x07M\x01\x02J\xfe\xff\xff\xff\x8a\x02\x00\x80I12\nL-5L\nI01\nG\x3f\xf8\0\0\0\0\0\0F-2.5\nt."s);
  ASSERT_TRUE(document) << document.error().to_string();
  const auto items = document->children(document->root());
  ASSERT_EQ(items.size(), 9U);
  EXPECT_EQ(document->integer(items[0]), 7);
  EXPECT_EQ(document->integer(items[1]), 513);
  EXPECT_EQ(document->integer(items[2]), -2);
  EXPECT_EQ(document->integer(items[3]), -32768);
  EXPECT_EQ(document->integer(items[4]), 12);
  EXPECT_EQ(document->integer(items[5]), -5);
  EXPECT_EQ(document->boolean(items[6]), true);
  EXPECT_EQ(document->graph()[items[7]].real, 1.5);
  EXPECT_EQ(document->graph()[items[8]].real, -2.5);
}

TEST(PickleReader, KeepsIntegersBeyond64BitsAsBytes) {
  const auto document = read("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\x01."s);  // 2^64
  ASSERT_TRUE(document);
  EXPECT_EQ(document->kind(document->root()), NodeKind::kBigInt);
  EXPECT_EQ(document->graph()[document->root()].text, "\0\0\0\0\0\0\0\0\x01"s);
}

TEST(PickleReader, SharesWhatTheMemoShares) {
  const auto document = read("\x80\x02]q\0h\0h\0\x86."s);  // ([], []) of one list … below another value
  EXPECT_FALSE(document);
  const auto shared = read("\x80\x02]q\0h\0\x86."s);
  ASSERT_TRUE(shared) << shared.error().to_string();
  const auto items = shared->children(shared->root());
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0], items[1]);
}

TEST(PickleReader, ReadsAListThatContainsItself) {
  const auto document = read("\x80\x02]q\0h\0a."s);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->children(document->root())[0], document->root());
}

TEST(PickleReader, KeepsCallsAsObjectsWithoutRunningThem) {
  auto document = read(
      "\x80\x02"
      "cos\nsystem\nX\x02\0\0\0lsq\0\x85R."s);
  ASSERT_TRUE(document);
  EXPECT_TRUE(document->is_instance(document->root(), "os", "system"));
  auto graph = std::move(*document).into_graph();
  ASSERT_TRUE(graph);
  const ObjectParts& object = graph->object(graph->root);
  EXPECT_FALSE(object.new_object);
  EXPECT_EQ((*graph)[(*graph)[object.arguments].children[0]].text, "ls");
}

TEST(PickleReader, GivesPython2ModulesTheirPython3Names) {
  const auto document = read(
      "\x80\x02"
      "c__builtin__\nset\n]\x85R."s);
  ASSERT_TRUE(document);
  EXPECT_TRUE(document->is_instance(document->root(), "builtins", "set"));
}

// Every pickle is what Python 3.11 writes for the value: pickle.dumps(value, protocol).
TEST(PickleReader, ReadsBytesOfProtocolsThatHaveNone) {
  const std::pair<std::string, std::string> cases[] = {
      {"c_codecs\nencode\np0\n(V\\u0000\xff\np1\nVlatin1\np2\ntp3\nRp4\n."s, "\0\xff"s},
      {"\x80\x02"
       "c_codecs\nencode\nq\0X\3\0\0\0\0\xc3\xbfq\1X\6\0\0\0latin1q\2\x86q\3Rq\4."s,
       "\0\xff"s},
      {"c__builtin__\nbytes\np0\n(tRp1\n."s, ""},
      {"\x80\x02"
       "c__builtin__\nbytes\nq\0)Rq\1."s,
       ""},
  };
  for (const auto& [pickle, value] : cases) {
    const auto document = read(pickle);
    ASSERT_TRUE(document) << document.error().to_string();
    EXPECT_EQ(document->kind(document->root()), NodeKind::kBytes);
    EXPECT_EQ(document->bytes(document->root()), value);
  }
}

TEST(PickleReader, ReadsByteArraysOfProtocolsThatHaveNone) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x80\x02"
       "c__builtin__\nbytearray\nq\0)Rq\1."s,
       ""},
      {"\x80\x02"
       "c__builtin__\nbytearray\nq\0c_codecs\nencode\nq\1X\5\0\0\0abc\xc3\xbfq\2X\6\0\0\0latin1q\3\x86q\4Rq\5\x85q\6Rq"
       "\7."s,
       "abc\xff"},
      {"\x80\x04\x8c\x08"
       "builtins\x94\x8c\x09"
       "bytearray\x94\x93\x94"
       "C\3abc\x94\x85\x94R\x94."s,
       "abc"},
  };
  for (const auto& [pickle, value] : cases) {
    const auto document = read(pickle);
    ASSERT_TRUE(document) << document.error().to_string();
    EXPECT_EQ(document->kind(document->root()), NodeKind::kByteArray);
    EXPECT_EQ(document->bytes(document->root()), value);
  }
}

TEST(PickleReader, LeavesOtherCallsOfEncodeAsObjects) {
  const auto call = [](const std::string& text, const std::string& encoding) {
    return "c_codecs\nencode\n(V" + text + "\nV" + encoding + "\ntR.";
  };
  for (const std::string& pickle : {call("a", "utf-16"), call("\\u0100", "latin1"), "c_codecs\nencode\n(tR."s}) {
    const auto document = read(pickle);
    ASSERT_TRUE(document) << document.error().to_string();
    EXPECT_TRUE(document->is_instance(document->root(), "_codecs", "encode")) << pickle;
  }
}

TEST(PickleReader, KeepsBytesOfOneTextOverAndOverSmall) {
  std::string bomb = "\x80\x02(c_codecs\nencode\nq\0X\0\0\1\0"s + std::string(65536, 'a') + "q\1X\6\0\0\0latin1q\2"s;
  for (int call = 0; call < 1000; ++call) bomb += "h\0h\1h\2\x86R"s;
  const auto document = read(bomb + "t.");
  ASSERT_TRUE(document) << document.error().to_string();
  std::size_t bytes = 0;
  for (NodeId id = 0; id < document->graph().size(); ++id) bytes += document->graph()[id].text.size();
  EXPECT_LE(bytes, 3 * bomb.size());
  EXPECT_GE(bytes, 65536U);  // the first one is bytes
}

// A list of the latin1 bytes of a large text and, if `used`, the text itself.
std::string large_pickle(const std::string& text, bool used) {
  const std::string size = {static_cast<char>(text.size() & 0xff), static_cast<char>((text.size() >> 8) & 0xff),
                            static_cast<char>(text.size() >> 16), '\0'};
  return "\x80\x02](c_codecs\nencode\nX"s + size + text + "q\1X\6\0\0\0latin1q\2\x86R"s + (used ? "h\1e."s : "e."s);
}

TEST(PickleReader, KeepsLargeTextApartAndOnlyWhereItIsUsed) {
  const std::string text(70'000, 'a');
  PickleOptions options;
  options.max_atom_text = 65'536;
  for (const bool used : {false, true}) {
    const std::string pickle = large_pickle(text, used);
    auto document = read_pickle(as_bytes(pickle), options);
    ASSERT_TRUE(document) << document.error().to_string();
    const auto graph = std::move(*document).into_graph().value();
    const Node& list = graph[graph.root];
    ASSERT_EQ(list.children.size(), used ? 2U : 1U);
    EXPECT_EQ(graph[list.children[0]].kind, NodeKind::kBytes);
    EXPECT_EQ(graph[list.children[0]].text, text);
    if (used) {
      EXPECT_EQ(graph[list.children[1]].kind, NodeKind::kString);
      EXPECT_EQ(graph[list.children[1]].text, text);
    }
    std::size_t bytes = 0;
    for (NodeId id = 0; id < graph.size(); ++id) bytes += graph[id].text.size();
    EXPECT_LT(bytes, (used ? 2 : 1) * text.size() + 100);
  }
}

TEST(PickleReader, RefusesLargeTextThatIsNoUtf8) {
  PickleOptions options;
  options.max_atom_text = 10;
  const std::string pickle = "\x80\x02X\x0c\0\0\0"s + std::string(11, 'a') + "\xff."s;
  EXPECT_THAT(read_pickle(as_bytes(pickle), options).error().to_string(), HasSubstr("not UTF-8"));
}

TEST(PickleReader, RefusesGlobalsWithAnEmptyPartInTheirName) {
  EXPECT_TRUE(read("cm\nA.B\n."));
  for (const std::string name : {".A", "A.", "A..B", "."})
    EXPECT_THAT(error_of("cm\n" + name + "\n.").to_string(), HasSubstr("has an empty part")) << name;
}

TEST(PickleReader, RefusesEveryTruncation) {
  const std::string whole =
      "\x80\x04}\x94(\x8c\x01"
      "a\x94K\x01\x8c\x01"
      "b\x94]\x94(G\0\0\0\0\0\0\0\0C\x02xyeu."s;
  ASSERT_TRUE(read(whole)) << read(whole).error().to_string();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Error error = error_of(whole.substr(0, size));
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << size << " " << error.to_string();
  }
}

TEST(PickleReader, NamesTheOffsetOfAnUnknownOpcode) {
  EXPECT_THAT(error_of("\x80\x02]\xff"s).to_string(), HasSubstr("pickle byte 3"));
}

TEST(PickleReader, RefusesLengthsBeyondTheInput) {
  for (const std::string& bytes :
       {"X\xff\xff\xff\x7f"s, "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s, "B\xff\xff\xff\xff"s, "\x8b\xff\xff\xff\xff"s,
        "\x95\xff\xff\xff\xff\xff\xff\xff\x7f"s, "\x96\xff\xff\xff\xff\xff\xff\xff\xff"s})
    EXPECT_EQ(error_of(bytes).code(), ErrorCode::kCorrupt);
}

TEST(PickleReader, RefusesMemoIndexesBeyondTheInput) {
  EXPECT_THAT(error_of("]r\xff\xff\xff\x7f."s).to_string(), HasSubstr("memo index"));
  EXPECT_THAT(error_of("h\x05."s).to_string(), HasSubstr("not set"));
}

TEST(PickleReader, KeepsDoublingBombsSmall) {
  std::string bomb = "\x80\x02]q\0"s;
  for (int level = 1; level < 200; ++level) {  // each list holds the one before twice: 2^200 items if it were expanded
    const char before = static_cast<char>(level - 1);
    bomb += "]q"s + static_cast<char>(level) + "(h" + before + "h" + before + "e";
  }
  bomb += "\x85."s;
  for (int level = 1; level < 200; ++level) bomb.insert(bomb.size() - 2, "\x86"s);
  const auto document = read(bomb);
  ASSERT_TRUE(document) << document.error().to_string();
  EXPECT_LT(document->graph().size(), 1000U);
}

TEST(PickleReader, RefusesUnderflowsOfTheStackAndTheMarks) {
  for (const char* bytes : {"a.",    "e.", "(a.", "]a.",  "\x81.",    "R.", "b.", "0.",   "1.",    "2.", "t.",
                            "\x85.", "s.", "u.",  "(]e.", "]K\x01s.", ".",  "(.", "]](.", "\x93.", "Q.", "q0"})
    EXPECT_FALSE(read(bytes)) << bytes;
}

TEST(PickleReader, RefusesItemsForWhatIsNoContainer) {
  for (const char* bytes : {"K\x01K\x02"
                            "a.",
                            "]K\x01K\x02s.",
                            "}K\x01"
                            "a.",
                            "NNb.", "K\x01NR.", "](K\x01u.",
                            "\x8f(K\x01"
                            "e.",
                            "](K\x01\x90."})
    EXPECT_FALSE(read(bytes)) << bytes;
}

TEST(PickleReader, HandsPersistentIdsToTheCaller) {
  PickleOptions options;
  options.persistent_id = [](PickleDocument& document, NodeId id) -> Result<NodeId> {
    EXPECT_EQ(document.text(id), "key");
    return document.graph().add_float(0.5);
  };
  const auto document = read("\x80\x04\x8c\x03keyQ."s, options);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->graph()[document->root()].real, 0.5);
  EXPECT_EQ(error_of("\x80\x04\x8c\x03keyQ."s).code(), ErrorCode::kUnsupported);
}

// Two objects m.C with state {'x': [n]}; both in a list, the first one twice.
const std::string kTwoObjects =
    "\x80\x04]\x94(\x8c\x01m\x94\x8c\x01"
    "C\x94\x93\x94)\x81\x94}\x94\x8c\x01x\x94]\x94K\x05"
    "asb"
    "h\x03)\x81\x94}\x94h\x06]\x94K\x06"
    "asbh\x04"
    "e."s;

PickleOptions token_per_object(std::vector<std::int64_t>* seen) {
  PickleOptions options;
  options.hooks.push_back(
      {"m", "C", PickleHook::When::kState,
       [seen](const PickleDocument& document, const ObjectParts& object) -> Result<PickleReplacement> {
         const NodeId list = document.find(object.state, "x");
         seen->push_back(document.integer(document.children(list)[0]).value_or(-1));
         return PickleReplacement::token(static_cast<std::uint32_t>(seen->size() - 1));
       }});
  return options;
}

TEST(PickleReader, ReplacesHookedObjectsAlsoInTheMemo) {
  std::vector<std::int64_t> seen;
  const auto document = read(kTwoObjects, token_per_object(&seen));
  ASSERT_TRUE(document) << document.error().to_string();
  EXPECT_EQ(seen, (std::vector<std::int64_t>{5, 6}));
  const auto items = document->children(document->root());
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0], kFirstToken);
  EXPECT_EQ(items[1], kFirstToken + 1);
  EXPECT_EQ(items[2], kFirstToken);
  EXPECT_EQ(document->graph().size(), 1U);  // the outer list alone is left
}

TEST(PickleReader, RefusesPartsOfReplacedObjects) {
  std::vector<std::int64_t> seen;
  std::string bytes = kTwoObjects;
  bytes.replace(bytes.size() - 4, 2, "h\x07");  // the inner list of the first object
  const Error error = error_of(bytes, token_per_object(&seen));
  EXPECT_THAT(error.to_string(), HasSubstr("a part of an object that was read already"));
}

TEST(PickleReader, KeepsNodesThatAnOlderContainerTookFromAHookedObject) {
  std::vector<std::int64_t> seen;
  // While the object is being built its inner list goes into the outer one as well.
  const std::string bytes =
      "\x80\x04]\x94\x8c\x01m\x94\x8c\x01"
      "C\x94\x93\x94)\x81\x94}\x94\x8c\x01x\x94]\x94K\x05"
      "as"
      "h\x00h\x07"
      "a0ba."s;
  const auto document = read(bytes, token_per_object(&seen));
  ASSERT_TRUE(document) << document.error().to_string();
  const auto items = document->children(document->root());
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(document->kind(items[0]), NodeKind::kList);
  EXPECT_EQ(document->integer(document->children(items[0])[0]), 5);
  EXPECT_EQ(items[1], kFirstToken);
}

TEST(PickleReader, RunsInnerHooksBeforeOuterOnes) {
  PickleOptions options;
  std::vector<std::string> order;
  for (const char* name : {"A", "B"})
    options.hooks.push_back(
        {"m", name, PickleHook::When::kCall, [&order, name](const PickleDocument& document, const ObjectParts& object) {
           order.emplace_back(name);
           const auto arguments = document.children(object.arguments);
           EXPECT_EQ(is_token(arguments[0]), order.back() == "A");
           return Result<PickleReplacement>(PickleReplacement::token(static_cast<std::uint32_t>(order.size())));
         }});
  const auto document = read("cm\nA\n(cm\nB\n(K\x01tRtR."s, options);  // A(B(1))
  ASSERT_TRUE(document) << document.error().to_string();
  EXPECT_EQ(order, (std::vector<std::string>{"B", "A"}));
  EXPECT_EQ(document->root(), kFirstToken + 2);
  EXPECT_EQ(document->graph().size(), 0U);
}

TEST(PickleReader, RefusesMoreObjectsThanTheInputJustifies) {
  EXPECT_EQ(error_of("("s + std::string(100000, ']')).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace tenplex
