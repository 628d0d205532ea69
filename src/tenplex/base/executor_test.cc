// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "tenplex/base/guarded.h"

namespace tenplex {
namespace {

TEST(Executor, RunsEveryIndexExactlyOnce) {
  for (const int threads : {1, 2, 5}) {
    Executor executor(threads);
    std::vector<std::atomic<int>> runs(1000);
    ASSERT_TRUE(executor.for_each(1000, [&](std::int64_t index) -> Result<void> {
      ++runs[static_cast<std::size_t>(index)];
      return {};
    }));
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(Executor, ReportsTheThreadsItWasAskedFor) {
  EXPECT_EQ(Executor(3).thread_count(), 3);
  EXPECT_EQ(Executor(1).thread_count(), 1);
  EXPECT_GE(Executor(0).thread_count(), 1);
}

TEST(Executor, DoesNothingForNoWork) {
  Executor executor(2);
  EXPECT_TRUE(executor.for_each(0, [](std::int64_t) -> Result<void> { return internal_error("must not run"); }));
}

TEST(Executor, RunsBodiesInParallelIncludingOnTheCaller) {
  Executor executor(3);
  std::latch all_running(3);  // passes only if three threads are inside a body at once
  Guarded<std::set<std::thread::id>> threads;
  ASSERT_TRUE(executor.for_each(3, [&](std::int64_t) -> Result<void> {
    threads.lock()->insert(std::this_thread::get_id());
    all_running.arrive_and_wait();
    return {};
  }));
  EXPECT_EQ(threads.lock()->size(), 3U);
  EXPECT_EQ(threads.lock()->count(std::this_thread::get_id()), 1U);
}

TEST(Executor, ReturnsTheFailureOfTheLowestIndexEvenIfItComesLater) {
  Executor executor(2);
  std::latch both_running(2);
  std::atomic<bool> higher_failed = false;
  const auto result = executor.for_each(2, [&](std::int64_t index) -> Result<void> {
    both_running.arrive_and_wait();
    if (index == 1) {
      higher_failed = true;
      return io_error("index 1");
    }
    while (!higher_failed) std::this_thread::yield();
    return corrupt("index 0");
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "index 0");
}

TEST(Executor, StartsNoBodyAfterAFailure) {
  Executor executor(1);
  std::int64_t last = -1;
  const auto result = executor.for_each(100, [&](std::int64_t index) -> Result<void> {
    last = index;
    if (index == 7) return io_error("seven");
    return {};
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kIo);
  EXPECT_EQ(last, 7);
}

TEST(Executor, IsUsableAgainAfterAFailure) {
  Executor executor(4);
  for (int round = 0; round < 200; ++round) {
    EXPECT_FALSE(executor.for_each(8, [](std::int64_t) -> Result<void> { return io_error("no"); }));
    std::atomic<int> runs = 0;
    EXPECT_TRUE(executor.for_each(8, [&](std::int64_t) -> Result<void> {
      ++runs;
      return {};
    }));
    EXPECT_EQ(runs, 8);
  }
}

TEST(Executor, StopsWhenAsked) {
  Executor executor(2);
  std::stop_source source;
  std::atomic<std::int64_t> runs = 0;
  const auto result = executor.for_each(
      1'000'000,
      [&](std::int64_t index) -> Result<void> {
        ++runs;
        if (index == 10) source.request_stop();
        return {};
      },
      source.get_token());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kCancelled);
  EXPECT_LT(runs, 1'000'000);
}

TEST(Executor, SucceedsIfTheStopComesAfterTheLastBody) {
  Executor executor(1);
  std::stop_source source;
  EXPECT_TRUE(executor.for_each(
      3,
      [&](std::int64_t index) -> Result<void> {
        if (index == 2) source.request_stop();
        return {};
      },
      source.get_token()));
}

TEST(Executor, DoesNotStartWhenTheStopCameBefore) {
  Executor executor(2);
  std::stop_source source;
  source.request_stop();
  const auto result = executor.for_each(
      5, [](std::int64_t) -> Result<void> { return internal_error("must not run"); }, source.get_token());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace tenplex
