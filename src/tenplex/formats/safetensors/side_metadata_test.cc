// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/side_metadata.h"

#include <gtest/gtest.h>

namespace tenplex::safetensors {
namespace {

SideData side_data() {
  SideData side;
  side.aliases = {{"head", "embed"}};
  side.extra_files = {{"config.json", 2}};
  return side;
}

// The checksum is that of the Python package xxhash.
TEST(SideMetadata, EndsWithTheChecksumOfAllBeforeIt) {
  const std::string text = encode_side_metadata(side_data());
  const std::string before =
      R"({"version":1,"oldest_reader":1,"aliases":{"head":"embed"},"extra_files":[["config.json",2]])";
  EXPECT_EQ(text, before + R"(,"checksum":")" + "84e08346aed6f3045c48496c721551f4" + R"("})");
}

TEST(SideMetadata, AnyBitFlippedIsNoticed) {
  const std::string text = encode_side_metadata(side_data());
  const std::size_t key_begin = text.find("checksum");
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto side = decode_side_metadata(damaged);
      if (!side) continue;
      // Only the name of the checksum can change and leave a text that can be read: it says the same.
      EXPECT_TRUE(at >= key_begin && at < key_begin + 8) << damaged;
      EXPECT_EQ(side->aliases, side_data().aliases);
      EXPECT_EQ(side->extra_files.size(), 1U);
    }
  }
}

TEST(SideMetadata, MayHaveNoChecksum) {
  const auto side = decode_side_metadata(R"({"version":1,"oldest_reader":1,"aliases":{"head":"embed"}})");
  ASSERT_TRUE(side.has_value()) << side.error().to_string();
  EXPECT_EQ(side->aliases, side_data().aliases);
}

}  // namespace
}  // namespace tenplex::safetensors
