// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/bytes.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(Bytes, FormatsWithOneDecimalAndBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::int64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(format_bytes((std::int64_t{1} << 20) - 1), "1.0 MiB");
}

TEST(Bytes, ParsesBinaryAndDecimalUnits) {
  EXPECT_EQ(*parse_bytes("256MiB"), 268435456);
  EXPECT_EQ(*parse_bytes("4 GiB"), 4294967296);
  EXPECT_EQ(*parse_bytes("2GB"), 2000000000);
  EXPECT_EQ(*parse_bytes("1.5K"), 1536);
  EXPECT_EQ(*parse_bytes("17"), 17);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", "-1", "1XB", "1e40GB", "nan", "inf", "0x10"})
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
}

}  // namespace
}  // namespace tenplex
