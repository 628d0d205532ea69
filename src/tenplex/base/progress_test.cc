// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/progress.h"

#include <gtest/gtest.h>

#include "tenplex/base/executor.h"

namespace tenplex {
namespace {

TEST(Progress, CountsTheBytesOfAllThreads) {
  Progress progress;
  progress.start_phase("copy", 7000);
  Executor executor(4);
  ASSERT_TRUE(executor.for_each(1000, [&](std::int64_t) -> Result<void> {
    progress.add(7);
    return progress.check();
  }));
  EXPECT_EQ(progress.snapshot().phase, "copy");
  EXPECT_EQ(progress.snapshot().done_bytes, 7000);
  EXPECT_EQ(progress.snapshot().total_bytes, 7000);
}

TEST(Progress, StartsEachPhaseAtZero) {
  Progress progress;
  EXPECT_EQ(progress.snapshot().phase, "");
  progress.start_phase("copy", 10);
  progress.add(10);
  progress.start_phase("verify", 20);
  EXPECT_EQ(progress.snapshot().phase, "verify");
  EXPECT_EQ(progress.snapshot().done_bytes, 0);
}

TEST(Progress, ReportsTheRequestToStop) {
  std::stop_source source;
  const Progress progress(source.get_token());
  EXPECT_TRUE(progress.check());
  source.request_stop();
  ASSERT_FALSE(progress.check());
  EXPECT_EQ(progress.check().error().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace tenplex
