// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/decimal.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(Decimal, IsDigitsOnly) {
  EXPECT_EQ(decimal_of("0"), 0);
  EXPECT_EQ(decimal_of("0070"), 70);
  EXPECT_EQ(decimal_of("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "0x1", "one", "9223372036854775808"})
    EXPECT_FALSE(decimal_of(text)) << text;
}

}  // namespace
}  // namespace tenplex
