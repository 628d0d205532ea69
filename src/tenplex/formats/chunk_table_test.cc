// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/chunk_table.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

TEST(ChunkTable, GivesBackWhatWasAdded) {
  ChunkTable table;
  table.reserve(4);
  table.add({TensorId(0), DeviceId(3), 7, 4096, Box{Dims{0, 8}, Dims{4, 2}}});
  table.add({TensorId(1), DeviceId((1 << 20) - 1), 0, 0, Box{Dims{}, Dims{}}});                  // a scalar
  table.add({TensorId(2), DeviceId(0), 1, std::int64_t{1} << 40, Box{Dims{4, 2}, Dims{0, 8}}});  // lists of the first
  table.add({TensorId(2), DeviceId(0), 1, 5, Box{Dims{1, 2, 3, 4, 5, 6, 7, 8}, Dims::filled(8, 1)}});
  ASSERT_EQ(table.size(), 4U);
  EXPECT_EQ(table[0].tensor, TensorId(0));
  EXPECT_EQ(table[0].device, DeviceId(3));
  EXPECT_EQ(table[0].file, 7);
  EXPECT_EQ(table[0].position, 4096);
  EXPECT_EQ(table[0].box, (Box{Dims{0, 8}, Dims{4, 2}}));
  EXPECT_EQ(table[1].device, DeviceId((1 << 20) - 1));
  EXPECT_EQ(table[1].box, (Box{Dims{}, Dims{}}));
  EXPECT_EQ(table[2].position, std::int64_t{1} << 40);
  EXPECT_EQ(table[2].box, (Box{Dims{4, 2}, Dims{0, 8}}));
  EXPECT_EQ(table[3].box, (Box{Dims{1, 2, 3, 4, 5, 6, 7, 8}, Dims::filled(8, 1)}));
}

TEST(ChunkTable, IsAValue) {
  ChunkTable table;
  table.add({TensorId(0), DeviceId(0), 0, 0, Box{Dims{0}, Dims{4}}});
  ChunkTable copy = table;
  copy.add({TensorId(0), DeviceId(1), 1, 0, Box{Dims{4}, Dims{4}}});
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(copy[1].box, (Box{Dims{4}, Dims{4}}));
}

}  // namespace
}  // namespace tenplex
