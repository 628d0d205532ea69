// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tenplex/base/executor.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

/// A committed checkpoint, in memory under its own path.
void put_golden(MemoryFileSystem& files, const std::filesystem::path& path) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path.parent_path())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files.put_file("/" + entry.path().string(), std::string(std::istreambuf_iterator<char>(file), {}));
  }
}

/// Where a chunk lies, and the bytes from there to the end of its file.
struct Found {
  std::int64_t offset_bytes = 0;
  Dims strides;
  std::uint32_t crc32 = 0;
  std::string bytes;

  friend bool operator==(const Found&, const Found&) = default;
};

Result<Found> find(const CheckpointReader& reader, std::size_t chunk) {
  TENPLEX_ASSIGN_OR_RETURN(const ChunkLocation location, reader.locate(chunk));
  TENPLEX_ASSIGN_OR_RETURN(const ByteSource* file, reader.file(reader.info().chunks[chunk].file));
  TENPLEX_ASSIGN_OR_RETURN(std::string bytes,
                           read_string(*file, location.offset_bytes, file->size() - location.offset_bytes));
  return Found{location.offset_bytes, location.strides, location.checked ? location.checked->crc32 : 0,
               std::move(bytes)};
}

// What a reader keeps of earlier calls is shared: many rounds on a fresh reader, as the first calls fill it.
TEST(CheckpointReader, FindsTheSameFromManyThreadsAsFromOne) {
  Executor executor(4);
  for (const std::string path :
       {"dcp/sharded", "dcp/safetensors", "dcp/strided", "safetensors/every_dtype.safetensors", "torch/views.pt"}) {
    MemoryFileSystem files;
    const std::string golden = "tests/golden/v1/" + path;
    put_golden(files, golden);
    const auto alone = open_checkpoint(files, "/" + golden, {});
    ASSERT_TRUE(alone) << alone.error().to_string();
    std::vector<Found> expected;
    for (std::size_t chunk = 0; chunk < (*alone)->info().chunks.size(); ++chunk)
      expected.push_back(find(**alone, chunk).value());
    ASSERT_FALSE(expected.empty()) << path;
    for (int round = 0; round < 20; ++round) {
      const auto shared = open_checkpoint(files, "/" + golden, {});
      ASSERT_TRUE(shared) << shared.error().to_string();
      const auto found = executor.for_each(100, [&](std::int64_t call) -> Result<void> {
        const std::size_t chunk = static_cast<std::size_t>(call) % expected.size();
        TENPLEX_ASSIGN_OR_RETURN(const Found here, find(**shared, chunk));
        if (here != expected[chunk]) return corrupt("chunk " + std::to_string(chunk));
        return {};
      });
      EXPECT_TRUE(found) << path << ": " << found.error().to_string();
    }
  }
}

}  // namespace
}  // namespace tenplex
