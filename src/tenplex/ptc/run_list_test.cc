// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/run_list.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

using Runs = std::vector<RunList::Run>;

Runs runs_of(const RunList& list) { return {list.runs().begin(), list.runs().end()}; }

TEST(RunList, OfAPaddedDimensionEndsInPadding) {
  const RunList list = RunList::whole(13, 16);
  EXPECT_EQ(list.extent(), 16);
  EXPECT_EQ(runs_of(list), (Runs{{0, 0, 13}, {13, RunList::kPadding, 3}}));
}

TEST(RunList, JoinsNeighboursThatContinueEachOther) {
  RunList list;
  list.append(4, 2);
  list.append(6, 1);
  list.append(0, 0);
  list.append(9, 1);
  list.append(RunList::kPadding, 1);
  list.append(RunList::kPadding, 2);
  EXPECT_EQ(runs_of(list), (Runs{{0, 4, 3}, {3, 9, 1}, {4, RunList::kPadding, 3}}));
}

TEST(RunList, GivesARangeThatCrossesRuns) {
  RunList source;
  source.append(10, 4);
  source.append(20, 4);
  source.append(RunList::kPadding, 2);
  RunList part;
  part.append_range(source, 3, 6);
  EXPECT_EQ(runs_of(part), (Runs{{0, 13, 1}, {1, 20, 4}, {5, RunList::kPadding, 1}}));
  RunList none;
  none.append_range(source, 4, 0);
  EXPECT_TRUE(none.runs().empty());
}

}  // namespace
}  // namespace tenplex
