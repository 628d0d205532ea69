// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/memory_budget.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(MemoryBudget, CountsWholePages) {
  MemoryBudget budget(10 * kPageBytes);
  auto buffer = budget.take(kPageBytes + 1).value();
  EXPECT_EQ(buffer.size(), 2 * kPageBytes);
  EXPECT_EQ(budget.held(), 2 * kPageBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kPageBytes, 0U);
}

TEST(MemoryBudget, NeverExceedsItsLimit) {
  MemoryBudget budget(3 * kPageBytes);
  auto first = budget.take(2 * kPageBytes).value();
  EXPECT_EQ(budget.take(2 * kPageBytes).error().code(), ErrorCode::kResourceExhausted);
  first = PageBuffer();
  EXPECT_EQ(budget.held(), 0);
}

TEST(MemoryBudget, TakesBuffersBack) {
  MemoryBudget budget(2 * kPageBytes);
  {
    const auto buffer = budget.take(2 * kPageBytes).value();
  }
  EXPECT_EQ(budget.held(), 0);
  EXPECT_TRUE(budget.take(2 * kPageBytes));
  EXPECT_EQ(budget.peak(), 2 * kPageBytes);
}

TEST(MemoryBudget, RefusesSizesThatDoNotFitInAnything) {
  MemoryBudget budget(INT64_MAX);
  EXPECT_EQ(budget.take(INT64_MAX).error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace tenplex
