// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/text_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tenplex {
namespace {

TEST(TextTable, FindsEveryTextItHasAndNoOther) {
  TextTable table;
  std::vector<std::string> texts;
  const auto find = [&](const std::string& text) {
    return table.find(table.hash(text), [&](std::uint32_t number) { return texts[number] == text; });
  };
  EXPECT_EQ(find(""), TextTable::kNone);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    texts.push_back(std::string(i % 20, 'x') + std::to_string(i));
    EXPECT_EQ(find(texts[i]), TextTable::kNone);
    table.add(table.hash(texts[i]), i);
  }
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(find(texts[i]), i);
  EXPECT_EQ(find("x"), TextTable::kNone);
}

TEST(TextTable, TellsTextsOfOneHashApart) {
  const std::vector<std::string> texts = {"a", "b", "c"};
  TextTable table;
  for (std::uint32_t i = 0; i < 3; ++i) table.add(7, i);
  for (std::uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ(table.find(7, [&](std::uint32_t number) { return texts[number] == texts[i]; }), i);
  EXPECT_EQ(table.find(7, [](std::uint32_t) { return false; }), TextTable::kNone);
}

}  // namespace
}  // namespace tenplex
