// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/open_file_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tenplex {
namespace {

TEST(RaiseOpenFileLimit, ReachesTheHardLimit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(raise_open_file_limit(), static_cast<std::int64_t>(before.rlim_max));
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(CheckOpenFiles, KnowsTheLimitBeforehand) {
  const std::int64_t limit = open_file_limit();
  ASSERT_GT(limit, 0);
  EXPECT_TRUE(check_open_files(1).has_value());
  EXPECT_EQ(check_open_files(limit).error().code(), ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace tenplex
