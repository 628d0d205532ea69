// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/crc32.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tenplex/base/crc32c.h"
#include "tenplex/base/internal/crc32c_paths.h"

namespace tenplex {
namespace {

std::vector<std::byte> random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// The definition: one bit at a time.
std::uint32_t crc_bit_by_bit(ByteSpan bytes, std::uint32_t polynomial) {
  std::uint32_t state = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state & 1) != 0 ? (state >> 1) ^ polynomial : state >> 1;
  }
  return ~state;
}

TEST(Crc32, GivesTheKnownValues) {
  EXPECT_EQ(crc32(0, {}), 0U);
  EXPECT_EQ(crc32(0, as_bytes("123456789")), 0xcbf43926U);
  EXPECT_EQ(crc32(0, as_bytes("a")), 0xe8b7be43U);
  EXPECT_EQ(crc32(0, as_bytes("The quick brown fox jumps over the lazy dog")), 0x414fa339U);
}

TEST(Crc32, ContinuesFromACrcBefore) {
  EXPECT_EQ(crc32(crc32(0, as_bytes("1234")), as_bytes("56789")), 0xcbf43926U);
  EXPECT_EQ(crc32(0xcbf43926, {}), 0xcbf43926U);
}

TEST(Crc32, CombinesOverEverySplit) {
  const auto bytes = random_bytes(300, 1);
  const std::uint32_t whole = crc_bit_by_bit(bytes, 0xEDB88320);
  ASSERT_EQ(crc32(0, bytes), whole);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const ByteSpan head = ByteSpan(bytes).first(cut);
    const ByteSpan tail = ByteSpan(bytes).subspan(cut);
    EXPECT_EQ(crc32_combine(crc32(0, head), crc32(0, tail), static_cast<std::int64_t>(tail.size())), whole) << cut;
  }
}

TEST(Crc32, CombinesOverLongSplits) {
  const auto bytes = random_bytes(3'000'017, 2);
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::size_t cut = random() % bytes.size();
    const ByteSpan tail = ByteSpan(bytes).subspan(cut);
    const std::uint32_t head_crc = crc32(0, ByteSpan(bytes).first(cut));
    EXPECT_EQ(crc32_combine(head_crc, crc32(0, tail), static_cast<std::int64_t>(tail.size())), crc32(0, bytes));
  }
}

// By zlib: crc32_combine(0x12345678, 0x9abcdef0, 1 << 40).
TEST(Crc32, CombinesOverLengthsThatDoNotFitInMemory) {
  EXPECT_EQ(crc32_combine(0x12345678, 0x9abcdef0, std::int64_t{1} << 40), 0x37290b0eU);
}

// RFC 3720, appendix B.4.
TEST(Crc32c, GivesTheKnownValues) {
  EXPECT_EQ(crc32c(0, {}), 0U);
  EXPECT_EQ(crc32c(0, as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0})), 0x8a9136aaU);
  EXPECT_EQ(crc32c(0, std::vector<std::byte>(32, std::byte{0xFF})), 0x62a8ab43U);
}

class Crc32cPath : public testing::TestWithParam<std::uint32_t (*)(std::uint32_t, ByteSpan)> {};

TEST_P(Crc32cPath, AgreesWithTheDefinitionAtEveryLengthAndAddress) {
  const auto bytes = random_bytes(2000, 4);
  for (std::size_t size = 0; size < 1100; size += size < 260 ? 1 : 37)
    for (std::size_t offset = 0; offset < 9; offset += 4) {
      const ByteSpan part = ByteSpan(bytes).subspan(offset, size);
      ASSERT_EQ(GetParam()(0, part), crc_bit_by_bit(part, 0x82F63B78)) << size << " at " << offset;
    }
}

TEST_P(Crc32cPath, AgreesWithTheDefinitionOnLongInput) {
  const auto bytes = random_bytes(3 * 4096 * 5 + 1234, 5);
  EXPECT_EQ(GetParam()(0, bytes), crc_bit_by_bit(bytes, 0x82F63B78));
}

TEST_P(Crc32cPath, Continues) {
  const auto bytes = random_bytes(70'001, 6);
  const std::uint32_t whole = crc_bit_by_bit(bytes, 0x82F63B78);
  for (const std::size_t cut : {0UL, 1UL, 7UL, 12'288UL, 50'000UL, 70'001UL}) {
    const ByteSpan head = ByteSpan(bytes).first(cut);
    const ByteSpan tail = ByteSpan(bytes).subspan(cut);
    EXPECT_EQ(GetParam()(GetParam()(0, head), tail), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Portable, Crc32cPath, testing::Values(&internal::crc32c_portable));
INSTANTIATE_TEST_SUITE_P(Dispatched, Crc32cPath, testing::Values(&crc32c));

}  // namespace
}  // namespace tenplex
