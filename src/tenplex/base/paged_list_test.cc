// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/paged_list.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include <cstdint>
#include <memory>

namespace tenplex {
namespace {

TEST(PagedList, KeepsItemsAndTheirAddressesOverManyPages) {
  constexpr std::size_t kItems = 10'000;  // 80,000 bytes, 5 pages
  PagedList<std::uint64_t> list;
  EXPECT_TRUE(list.empty());
  const std::uint64_t* first = &list.push_back(0);
  for (std::size_t i = 1; i < kItems; ++i) EXPECT_EQ(list.push_back(i * i), i * i);
  ASSERT_EQ(list.size(), kItems);
  EXPECT_EQ(&list[0], first);
  for (std::size_t i = 0; i < kItems; ++i) ASSERT_EQ(list[i], i * i);
}

TEST(PagedList, HoldsWhatCanOnlyBeMovedAndIsLargerThanAPage) {
  struct Large {
    std::unique_ptr<int> value;
    char bytes[20'000];
  };
  PagedList<Large> list;
  for (int i = 0; i < 3; ++i) list.push_back({std::make_unique<int>(i), {}});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(*list[i].value, static_cast<int>(i));
}

TEST(PagedList, DropsItsEnd) {
  PagedList<std::string> list;
  for (int i = 0; i < 2000; ++i) list.push_back(std::to_string(i));  // several pages
  const std::string* const third = &list[3];
  for (const std::size_t size : {1999U, 1024U, 1023U, 512U, 4U}) {
    list.truncate(size);
    ASSERT_EQ(list.size(), size);
    EXPECT_EQ(list[size - 1], std::to_string(size - 1));
  }
  for (int i = 4; i < 1500; ++i) list.push_back("new " + std::to_string(i));
  EXPECT_EQ(&list[3], third);
  EXPECT_EQ(list[4], "new 4");
  EXPECT_EQ(list[1499], "new 1499");
  list.truncate(0);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.push_back("again"), "again");
}

TEST(PagedList, DropsAndAddsAtTheEdgeOfAPage) {
  PagedList<std::int64_t> list;  // 2048 to a page
  for (std::int64_t i = 0; i < 2048; ++i) list.push_back(i);
  for (std::int64_t round = 0; round < 5; ++round) {
    list.push_back(-round);
    ASSERT_EQ(list[2048], -round);
    list.truncate(2048);
  }
  EXPECT_EQ(list[2047], 2047);
}

}  // namespace
}  // namespace tenplex
