// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/box_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace tenplex {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A file of the bytes 0, 1, 2, … that is a uint8 tensor [4, 4], its last row missing: columns 0 and 1 row-major,
/// columns 2 and 3 from byte 8 on with the rows next to each other.
class TwoChunks final : public CheckpointReader, public ByteSource {
 public:
  TwoChunks() {
    info_.tensors = {{"w", DType::kUInt8, {4, 4}}};
    info_.files = {"f"};
    info_.chunks.add({TensorId(0), DeviceId(0), 0, 0, {{0, 0}, {3, 2}}});
    info_.chunks.add({TensorId(0), DeviceId(0), 0, 8, {{0, 2}, {3, 2}}});
  }
  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t) const override { return static_cast<const ByteSource*>(this); }
  Result<ChunkLocation> locate(std::size_t index) const override {
    if (index == 0) return ChunkLocation{0, {2, 1}, {}};
    return ChunkLocation{8, {1, 3}, {}};
  }
  Result<std::string> read_extra_file(const ExtraFile&) const override { return not_found("none"); }

  std::int64_t size() const override { return 16; }
  FileStamp stamp() const override { return {}; }
  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    for (std::size_t at = 0; at < buffer.size(); ++at)
      buffer[at] = static_cast<std::byte>(offset + static_cast<std::int64_t>(at));
    return {};
  }
  const std::string& name() const override { return info_.files[0]; }

 private:
  CheckpointInfo info_;
};

TEST(BoxBytes, PutsABoxTogetherOfItsChunks) {
  const TwoChunks reader;
  const BoxBytes bytes(reader);
  EXPECT_THAT(bytes.read(TensorId(0), {{0, 0}, {3, 4}}).value(), ElementsAre(0, 1, 8, 11, 2, 3, 9, 12, 4, 5, 10, 13));
  EXPECT_THAT(bytes.read(TensorId(0), {{1, 1}, {2, 2}}).value(), ElementsAre(3, 9, 5, 10));
  EXPECT_EQ(bytes.read(TensorId(0), {{1, 1}, {0, 2}}).value(), "");
}

TEST(BoxBytes, WhatIsStoredNowhereIsAnError) {
  const TwoChunks reader;
  EXPECT_THAT(BoxBytes(reader).read(TensorId(0), {{2, 0}, {2, 4}}).error().message(),
              HasSubstr("4 of the 8 elements of [2:4, 0:4] are stored nowhere"));
}

}  // namespace
}  // namespace tenplex
