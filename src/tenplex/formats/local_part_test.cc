// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/local_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using testing::ElementsAre;

TEST(LocalPart, ARunIsBoxesOfTheWholeTensor) {
  // Rows 0 and 1 lie in rows 0 and 1 of the tensor, rows 2 and 3 in its rows 8 and 9.
  const LocalPart local = {{4, 3}, {{{{0, 0}, {2, 3}}, {0, 0}}, {{{2, 0}, {2, 3}}, {8, 0}}}};
  EXPECT_THAT(boxes_of_run(local, 4, 8), ElementsAre(RunBox{{{1, 1}, {1, 2}}, 4}, RunBox{{{8, 0}, {1, 2}}, 6}));
  EXPECT_THAT(boxes_of_run(local, 0, 12), ElementsAre(RunBox{{{0, 0}, {2, 3}}, 0}, RunBox{{{8, 0}, {2, 3}}, 6}));
  EXPECT_THAT(boxes_of_run(local, 5, 5), ElementsAre());
}

TEST(LocalPart, PaddingIsNothing) {
  const LocalPart local = {{3, 2}, {{{{0, 0}, {2, 2}}, {4, 0}}}};
  EXPECT_THAT(boxes_of_run(local, 3, 6), ElementsAre(RunBox{{{5, 1}, {1, 1}}, 3}));
  const LocalPart single = {{}, {{Box{}, {}}}};
  EXPECT_THAT(boxes_of_run(single, 0, 1), ElementsAre(RunBox{Box{}, 0}));
}

}  // namespace
}  // namespace tenplex
