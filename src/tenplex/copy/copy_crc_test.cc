// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/copy_crc.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tenplex/base/crc32.h"
#include "tenplex/base/crc32c.h"

namespace tenplex {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t size) {
  std::mt19937 random(41);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(CopyCrc, GivesTheKnownValues) {
  Bytes target(9);
  EXPECT_EQ(copy_with_crc(Checksum::kCrc32, 0, target.data(), as_bytes("123456789")), 0xcbf43926U);
  EXPECT_EQ(as_text(target), "123456789");
  EXPECT_EQ(copy_with_crc(Checksum::kCrc32c, 0, target.data(), as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(copy_with_crc(Checksum::kCrc32, 7, target.data(), {}), 7U);
}

TEST(CopyCrc, CopiesAndSumsManyBlocks) {
  const Bytes source = random_bytes(1'000'003);
  for (const Checksum checksum : {Checksum::kCrc32, Checksum::kCrc32c}) {
    Bytes target(source.size());
    const std::uint32_t crc = copy_with_crc(checksum, 0x1234, target.data(), source);
    EXPECT_EQ(target, source);
    EXPECT_EQ(crc, checksum == Checksum::kCrc32 ? crc32(0x1234, source) : crc32c(0x1234, source));
  }
}

TEST(CopyCrc, PacksStridedBoxesInRowMajorOrder) {
  const Bytes source = random_bytes(4 << 20);
  for (const auto& [extent, strides] : {std::pair{Dims{}, Dims{}},
                                        {Dims{3, 0}, Dims{8, 4}},
                                        {Dims{300, 700}, Dims{5000, 4}},
                                        {Dims{700, 300}, Dims{4, 2800}},
                                        {Dims{2, 3, 200'000}, Dims{1'600'000, 4, 8}},
                                        {Dims{3, 50'000, 2}, Dims{4, 12, 600'000}}}) {
    Bytes expected;
    for (std::int64_t flat = 0; flat < volume(extent); ++flat) {
      std::int64_t left = flat;
      std::int64_t from = 0;
      for (int dim = extent.rank() - 1; dim >= 0; --dim) {
        from += left % extent[dim] * strides[dim];
        left /= extent[dim];
      }
      expected.insert(expected.end(), source.begin() + from, source.begin() + from + 4);
    }
    Bytes target(expected.size());
    EXPECT_EQ(pack_with_crc(Checksum::kCrc32, 0, target.data(), source.data(), {extent, strides, 4}),
              crc32(0, expected));
    EXPECT_EQ(target, expected) << to_string(extent);
  }
}

}  // namespace
}  // namespace tenplex
