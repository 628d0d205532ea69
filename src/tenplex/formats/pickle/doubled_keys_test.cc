// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/doubled_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/formats/pickle/pickle_reader.h"

namespace tenplex {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

/// Of a pickle of protocol 4 that ends without STOP; "none" if it is read.
std::string doubled_error_of(const std::string& body, const PickleOptions& options = {}) {
  const auto document = read_pickle(as_bytes("\x80\x04" + body + "."), options);
  if (document) return "none";
  return document.error().code() == ErrorCode::kCorrupt ? document.error().to_string() : "another code";
}

TEST(DoubledKeys, RefusesATextThatADictHasTwice) {
  EXPECT_EQ(doubled_error_of("}(\x8c\1aK\1\x8c\1bK\2\x8c\1aK\3u"s),
            "a dict has one key twice: 'a'");                                                  // in one SETITEMS
  EXPECT_EQ(doubled_error_of("}(\x8c\1aK\1u(\x8c\1aK\2u"s), "a dict has one key twice: 'a'");  // in two
  EXPECT_EQ(doubled_error_of("}\x8c\1aK\1s\x8c\1aK\2s"s), "a dict has one key twice: 'a'");
  EXPECT_EQ(doubled_error_of("(\x8c\1aK\1\x8c\1aK\2d"s), "a dict has one key twice: 'a'");
  EXPECT_EQ(doubled_error_of("}(\x8c\1aK\1\x8c\1bK\1u"s), "none");
  EXPECT_EQ(doubled_error_of("]((\x8c\1aK\1d(\x8c\1aK\1de"s), "none");  // two dicts
}

TEST(DoubledKeys, ComparesKeysAsPythonDoes) {
  const auto with_keys = [](const std::string& a, const std::string& b) {
    return doubled_error_of("(" + a + "N" + b + "Nd");
  };
  const std::string one = "a dict has one key twice: 1";
  EXPECT_EQ(with_keys("K\1"s, "M\1\0"s), one);
  EXPECT_EQ(with_keys("K\1"s, "\x88"s), one);                                                      // True
  EXPECT_EQ(with_keys("J\1\0\0\0"s, "G\x3f\xf0\0\0\0\0\0\0"s), one);                               // 1.0
  EXPECT_EQ(with_keys("G\0\0\0\0\0\0\0\0"s, "G\x80\0\0\0\0\0\0\0"s), "a dict has one key twice");  // 0.0 and -0.0
  EXPECT_EQ(with_keys("G\x3f\xf8\0\0\0\0\0\0"s, "F1.5\n"s), "a dict has one key twice");
  EXPECT_EQ(with_keys("C\1a"s, "B\1\0\0\0a"s), "a dict has one key twice");                 // bytes
  EXPECT_EQ(with_keys("K\1\x8c\1a\x86"s, "\x88\x8c\1a\x86"s), "a dict has one key twice");  // (1, 'a') and (True, 'a')
  EXPECT_EQ(with_keys("\x8a\x09\0\0\0\0\0\0\0\0\1"s, "\x8a\x0a\0\0\0\0\0\0\0\0\1\0"s),
            "a dict has one key twice");  // 2^64
}

TEST(DoubledKeys, LetsKeysPassThatPythonTellsApart) {
  const auto with_keys = [](const std::string& a, const std::string& b) {
    return doubled_error_of("(" + a + "N" + b + "Nd");
  };
  EXPECT_EQ(with_keys("K\1"s, "\x8c\1"s + "1"), "none");                             // 1 and '1'
  EXPECT_EQ(with_keys("\x8c\1a"s, "C\1a"s), "none");                                 // 'a' and b'a'
  EXPECT_EQ(with_keys("G\x7f\xf8\0\0\0\0\0\0"s, "G\x7f\xf8\0\0\0\0\0\0"s), "none");  // two NaNs
  EXPECT_EQ(with_keys("K\1K\2\x86"s, "K\2K\1\x86"s), "none");                        // (1, 2) and (2, 1)
  EXPECT_EQ(with_keys("K\1K\2\x86K\3\x86"s, "K\1K\2K\3\x86\x86"s), "none");          // ((1, 2), 3), (1, (2, 3))
  EXPECT_EQ(with_keys("N"s, "\x89"s), "none");                                       // None and False
  EXPECT_EQ(with_keys("K\1"s, "G\x3f\xf8\0\0\0\0\0\0"s), "none");                    // 1 and 1.5
}

TEST(DoubledKeys, RefusesLargeTextsThatAreNoAtoms) {
  PickleOptions options;
  options.max_atom_text = 2;
  EXPECT_EQ(doubled_error_of("(\x8c\3abcN\x8c\3abcNd"s, options), "a dict has one key twice: 'abc'");
  EXPECT_EQ(doubled_error_of("(\x8c\3abcN\x8c\3abdNd"s, options), "none");
}

TEST(DoubledKeys, RefusesItemsOfASetAndOfADictSubclass) {
  EXPECT_EQ(doubled_error_of("\x8f(K\1K\2K\1\x90"s), "a set has one item twice: 1");
  EXPECT_EQ(doubled_error_of("(\x8c\1a\x8c\1a\x91"s), "a set has one item twice: 'a'");
  EXPECT_EQ(doubled_error_of("ccollections\nOrderedDict\n)R(\x8c\1aK\1\x8c\1aK\2u"s), "a dict has one key twice: 'a'");
}

TEST(DoubledKeys, NamesTheClassOfAField) {
  EXPECT_EQ(doubled_error_of("cpackage.module\nPoint\n)\x81}(\x8c\1xK\1\x8c\1yK\1\x8c\1xK\2ub"s),
            "Point: the field 'x' is there twice");
}

// Its nodes are dropped with the object, and with them what the dict had.
TEST(DoubledKeys, RefusesFieldsOfHookedObjects) {
  PickleOptions options;
  options.hooks.push_back({"m", "C", PickleHook::When::kState, [](const PickleDocument&, const ObjectParts&) {
                             return Result<PickleReplacement>(PickleReplacement::token(0));
                           }});
  EXPECT_EQ(doubled_error_of("cm\nC\n)\x81}(\x8c\1xK\1\x8c\1yK\2ub"s, options), "none");
  EXPECT_THAT(doubled_error_of("cm\nC\n)\x81}(\x8c\1xK\1\x8c\1xK\2ub"s, options),
              HasSubstr("C: the field 'x' is there twice"));
  // In a dict that an object inside the hooked one shares with it.
  EXPECT_THAT(doubled_error_of("cm\nC\n)\x81}(\x8c\1x}\x94(K\1K\2K\1K\3u\x8c\1ycm\nC\n)\x81h\0bub"s, options),
              HasSubstr("a dict has one key twice: 1"));
}

// 2^100 ways lead through the tuple.
TEST(DoubledKeys, TakesATupleThatHoldsItselfTwiceOverAndOver) {
  std::string key = ")\x94"s;
  for (char level = 0; level < 100; ++level) key += "h"s + level + "\x86\x94";
  EXPECT_EQ(doubled_error_of("(" + key + "NK\1Nd"), "none");
  EXPECT_EQ(doubled_error_of("(" + key + "Nh\x64Nd"), "a dict has one key twice");  // memo entry 100 is the tuple
}

}  // namespace
}  // namespace tenplex
