// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/turns.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenplex {
namespace {

using Counts = std::vector<std::int64_t>;

Turns turns_of(const std::vector<std::int64_t>& bandwidths) {
  Turns turns;
  turns.set_bandwidths(bandwidths);
  return turns;
}

std::vector<std::size_t> first_turns(Turns turns, std::int64_t count) {
  std::vector<std::size_t> holders;
  for (std::int64_t turn = 0; turn < count; ++turn) holders.push_back(turns.holder_at(turn));
  return holders;
}

// Turns end at 1/3, 2/3, 3/3 (holder 2), 1/2, 2/2 (holder 1) and 1/1 (holder 0).
TEST(Turns, GoToTheHolderThatIsDoneFirst) {
  EXPECT_EQ(first_turns(turns_of({100, 200, 300}), 8), (std::vector<std::size_t>{2, 1, 2, 0, 1, 2, 2, 1}));
  EXPECT_EQ(turns_of({100, 200, 300}).round(), 6);
}

// 3 : 5. Ends at .333 .667 1 and .2 .4 .6 .8 1; the third tick of eight, (.25, .375], has one, the fifth and sixth have
// .6 and .667.
TEST(Turns, AreOrderedByTheirEndsAlsoWithinATick) {
  EXPECT_EQ(first_turns(turns_of({3, 5}), 8), (std::vector<std::size_t>{1, 0, 1, 1, 0, 1, 0, 1}));
  // 3 : 4 : 5. The eighth tick of twelve, (.583, .667], has .6 of holder 2 before .667 of holder 0.
  EXPECT_EQ(first_turns(turns_of({3, 4, 5}), 12), (std::vector<std::size_t>{2, 1, 0, 2, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(Turns, OfEqualLinksGoRound) {
  EXPECT_EQ(first_turns(turns_of({7, 7, 7}), 5), (std::vector<std::size_t>{0, 1, 2, 0, 1}));
  EXPECT_EQ(turns_of({7, 7, 7}).count(8, 2), (Counts{3, 2, 3}));  // 2 0 1 2 0 1 2 0
}

TEST(Turns, CountWhatEveryHolderHas) {
  EXPECT_EQ(turns_of({100, 200, 300}).count(600, 1), (Counts{100, 200, 300}));
  EXPECT_EQ(turns_of({100, 200, 300}).count(3, 0), (Counts{0, 1, 2}));
  EXPECT_EQ(turns_of({100, 200, 300}).count(10, 0), (Counts{2, 3, 5}));  // 1 2 3, then 2 1 2 0
  EXPECT_EQ(turns_of({100, 200, 300}).count(0, 0), (Counts{0, 0, 0}));
}

TEST(Turns, CountAgreesWithTheHolders) {
  Turns turns = turns_of({13, 4, 29, 1, 8});
  Counts expected(5);
  for (std::int64_t turn = 0; turn < 120; ++turn) {
    EXPECT_EQ(turns.count(turn, 0), expected) << turn;
    ++expected[turns.holder_at(turn)];
  }
}

// One byte per second beside a million: turn 1,000,000 of the fast one ends together with turn 1 of the slow one, which
// is first in order.
TEST(Turns, KeepProportionsOfOneToAMillion) {
  Turns turns = turns_of({1, 1'000'000});
  EXPECT_EQ(turns.round(), 1'000'001);
  EXPECT_EQ(turns.holder_at(999'998), 1U);
  EXPECT_EQ(turns.holder_at(999'999), 0U);
  EXPECT_EQ(turns.holder_at(1'000'000), 1U);
  EXPECT_EQ(turns.count(2'000'002, 0), (Counts{2, 2'000'000}));
  EXPECT_EQ(turns.count(1000, 0), (Counts{0, 1000}));
}

TEST(Turns, HoldAnyBandwidths) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(turns_of({kMost, kMost}).count(kMost, 1), (Counts{kMost / 2, kMost / 2 + 1}));
  EXPECT_EQ(turns_of({kMost, 1}).count(1'000'000, 0), (Counts{1'000'000, 0}));
  // 2^62 − 1 and twice that, plus 1: rounded to 2^29 − 1 and 2^30 − 1, then shares of a third and two thirds.
  EXPECT_EQ(turns_of({kMost / 2, kMost}).count(3'000'000, 0), (Counts{1'000'000, 2'000'000}));
}

}  // namespace
}  // namespace tenplex
