// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/paged_list.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tenplex
