// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/item_locator.h"

#include <gtest/gtest.h>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/torch/torch_item.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex::dcp {
namespace {

// The archive of a float32 tensor of shape [2].
std::string item_of(const std::string& data) {
  const ZipLayout layout = tensor_item(DType::kFloat32, {2});
  const std::uint32_t crc = crc32(0, as_bytes(data));
  return layout.literal(0, {}) + data + layout.literal(2, std::span(&crc, 1));
}

// A data file of items that are equally long, one for each chunk.
struct StoredFolder {
  explicit StoredFolder(const std::vector<std::string>& items)
      : item_bytes(static_cast<std::int64_t>(items[0].size())) {
    std::string content;
    for (const std::string& item : items) {
      chunks.add({TensorId(0), DeviceId(0), 0, static_cast<std::int64_t>(content.size()), Box{{0}, {2}}});
      content += item;
    }
    files.put_file("/c/data", content);
    EXPECT_TRUE(pool.add("data"));
    locator.emplace(pool, chunks, std::int64_t{1} << 20);
  }

  Result<ChunkLocation> locate(std::size_t chunk) const { return locator->locate(tensor, chunks[chunk], item_bytes); }

  MemoryFileSystem files;
  FilePool pool{files, "/c"};
  ChunkTable chunks;
  std::int64_t item_bytes;
  TensorInfo tensor{"t", DType::kFloat32, {2}};
  std::optional<ItemLocator> locator;
};

TEST(ItemLocator, FindsTheDataOfItemsThatAreLikeTheFirst) {
  const std::vector<std::string> data = {"aaaaAAAA", "bbbbBBBB", "ccccCCCC"};
  const StoredFolder folder({item_of(data[0]), item_of(data[1]), item_of(data[2])});
  for (const std::size_t chunk : {0U, 1U, 2U, 0U}) {
    const auto location = folder.locate(chunk);
    ASSERT_TRUE(location) << location.error().to_string();
    EXPECT_EQ(*read_string(folder.pool[0], location->offset_bytes, 8), data[chunk]);
    EXPECT_EQ(location->strides, (Dims{1}));
    ASSERT_TRUE(location->checked);
    EXPECT_EQ(location->checked->begin, location->offset_bytes);
    EXPECT_EQ(location->checked->size, 8);
    EXPECT_EQ(location->checked->crc32, crc32(0, as_bytes(data[chunk])));
  }
}

TEST(ItemLocator, ReadsAnItemInFullThatIsOnlyNearlyLikeTheFirst) {
  std::string damaged = item_of("bbbbBBBB");
  damaged[damaged.find("FloatStorage")] = 'B';
  const StoredFolder folder({item_of("aaaaAAAA"), damaged, item_of("ccccCCCC")});
  EXPECT_TRUE(folder.locate(0));
  const auto location = folder.locate(1);
  ASSERT_FALSE(location);
  EXPECT_EQ(location.error().code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(folder.locate(2));
}

// In the second item only the directory names the byte order: what is in front of its data is not all that counts.
TEST(ItemLocator, LearnsNothingFromAnItemWithoutAByteOrderInFrontOfItsData) {
  std::string none = item_of("aaaaAAAA");
  none[none.find("byteorder")] = 'B';
  std::string listed = none;
  none[none.rfind("byteorder")] = 'B';
  const StoredFolder folder({none, listed});
  EXPECT_TRUE(folder.locate(0));
  EXPECT_FALSE(folder.locate(1));
}

}  // namespace
}  // namespace tenplex::dcp
