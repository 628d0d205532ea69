// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_input.h"

#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

// 1 MiB in which every 4 bytes are their own number.
std::string numbers() {
  std::string bytes;
  for (std::uint32_t word = 0; word < (1U << 18); ++word)
    for (int byte = 0; byte < 4; ++byte) bytes.push_back(static_cast<char>((word >> (8 * byte)) & 0xff));
  return bytes;
}

TEST(PickleInput, GivesTheBytesOfAFileWhateverTheWindow) {
  const std::string bytes = numbers();
  MemoryFileSystem files;
  files.put_file("/f", "head" + bytes + "tail");
  const auto source = files.open("/f");
  ASSERT_TRUE(source);
  PickleInput input(**source, 4, static_cast<std::int64_t>(bytes.size()));
  std::size_t at = 0;
  // 256 KiB lie in a window: pieces inside it, across its end, of its size, and larger than it.
  for (const std::size_t count : {1U, 200'000U, 100'000U, 262'144U, 3U, 300'000U, 0U, 64U}) {
    const auto taken = input.take(count);
    ASSERT_TRUE(taken) << count;
    EXPECT_TRUE(*taken == std::string_view(bytes).substr(at, count)) << count;
    at += count;
    EXPECT_EQ(input.position(), static_cast<std::int64_t>(at));
  }
  while (at % 4 != 0) EXPECT_EQ(*input.take_byte(), bytes[at++]);
  for (; at < bytes.size(); at += 4) ASSERT_EQ(*input.take_unsigned(4), at / 4);
  EXPECT_EQ(input.remaining(), 0);
  EXPECT_FALSE(input.take_byte());
}

TEST(PickleInput, GivesStringsAsItGivesViews) {
  const std::string bytes = numbers();
  MemoryFileSystem files;
  files.put_file("/f", "head" + bytes + "tail");
  const auto source = files.open("/f").value();
  PickleInput input(*source, 4, static_cast<std::int64_t>(bytes.size()));
  std::size_t at = 0;
  for (const std::size_t count : {5U, 300'000U, 262'144U, 0U, 400'000U}) {
    ASSERT_TRUE(input.take_string(count).value() == bytes.substr(at, count)) << count;
    at += count;
    EXPECT_EQ(*input.take_byte(), bytes[at++]);
  }
  EXPECT_EQ(input.take_string(bytes.size()).error().code(), ErrorCode::kCorrupt);
}

TEST(PickleInput, RefusesMoreBytesThanThereAre) {
  MemoryFileSystem files;
  files.put_file("/f", "abcdef");
  const auto source = files.open("/f");
  ASSERT_TRUE(source);
  PickleInput input(**source, 1, 4);
  EXPECT_EQ(input.take(5).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(input.take(std::uint64_t{1} << 60).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(*input.take(4), "bcde");
}

}  // namespace
}  // namespace tenplex
