// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/printable.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(Printable, KeepsTextThatPeopleRead) {
  for (const std::string text : {"", "model.blocks.0.weight", "a b~", "größe", "重み", "→ ×", "\xF0\x9F\x99\x82"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(printable("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J\xC2\x80\xC2\x9F"),
            "\\u009b2J\\u0080\\u009f");
  EXPECT_EQ(printable("\xC2\xA0\xC2\xA1"), "\xC2\xA0\xC2\xA1");
}

TEST(Printable, EscapesWhatMovesOrHidesText) {
  EXPECT_EQ(printable("\u202a\u202e\u2066\u2069"), "\\u202a\\u202e\\u2066\\u2069");
  EXPECT_EQ(printable("\u200b\u2028\u2029\ufeff\u061c"), "\\u200b\\u2028\\u2029\\ufeff\\u061c");
  EXPECT_EQ(printable("\U000E0041"), "\\U000e0041");
  EXPECT_EQ(printable("\u2027\u202f\u2070"), "\u2027\u202f\u2070");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "2J\xff"),
            "\\x9b2J\\xff");
  EXPECT_EQ(printable("\xC0\x9B"), "\\xc0\\x9b");                    // overlong
  EXPECT_EQ(printable("\xE0\x82\x9B"), "\\xe0\\x82\\x9b");           // overlong
  EXPECT_EQ(printable("\xF0\x80\x82\x9B"), "\\xf0\\x80\\x82\\x9b");  // overlong
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // U+110000
  EXPECT_EQ(printable("a\xE2\x82"), "a\\xe2\\x82");                  // cut off
  EXPECT_EQ(printable("\xE2\x1b\x82"), "\\xe2\\x1b\\x82");
}

TEST(Printable, GivesDifferentNamesDifferentTexts) {
  EXPECT_EQ(printable("a\\n"), "a\\n");
  EXPECT_EQ(printable_name("a\\n"), "a\\\\n");
  EXPECT_EQ(printable_name("a\n"), "a\\n");
}

}  // namespace
}  // namespace tenplex
