// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/progress_line.h"

#include <gtest/gtest.h>

namespace tenplex::cli {
namespace {

using std::chrono::seconds;

TEST(ProgressText, ShowsShareRateAndTimeLeft) {
  const Progress::Snapshot half{"copy", 1LL << 30, 2LL << 30};
  EXPECT_EQ(progress_text(half, seconds(2), 60), "copy       50 %   1.0 GiB of 2.0 GiB   512.0 MiB/s   2 s left");
}

TEST(ProgressText, DrawsABarWhereThereIsRoom) {
  const Progress::Snapshot half{"copy", 512, 1024};
  EXPECT_EQ(progress_text(half, std::chrono::milliseconds(199), 60),
            "copy      ████████          50 %   512 B of 1.0 KiB   0 B/s");
  EXPECT_EQ(progress_text(half, seconds(0), 60), "copy      ████████          50 %   512 B of 1.0 KiB   0 B/s");
}

TEST(ProgressText, NeverClaimsMoreThanAHundredPercent) {
  const Progress::Snapshot over{"verify", 2048, 1024};
  EXPECT_EQ(progress_text(over, seconds(1), 40), "verify    100 %   2.0 KiB of 1.0 KiB   2.0 KiB/s");
}

TEST(ProgressText, LeavesTheShareOutWhenTheTotalIsUnknown) {
  EXPECT_EQ(progress_text({"read", 2048, 0}, seconds(1), 80), "read      2.0 KiB   2.0 KiB/s");
}

}  // namespace
}  // namespace tenplex::cli
