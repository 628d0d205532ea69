// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/text_arena.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tenplex {
namespace {

TEST(TextArena, KeepsTextsWhereTheyAre) {
  TextArena arena;
  std::vector<std::string> texts = {"", "a", std::string(5000, 'b'), std::string(100'000, 'c')};
  for (int i = 0; i < 20'000; ++i) texts.push_back("layers." + std::to_string(i));  // more than a block
  std::vector<const char*> places;
  for (const std::string& text : texts) places.push_back(arena.add(text));
  const TextArena moved = std::move(arena);
  for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(std::string_view(places[i], texts[i].size()), texts[i]);
}

}  // namespace
}  // namespace tenplex
