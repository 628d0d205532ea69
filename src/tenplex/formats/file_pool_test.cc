// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/file_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tenplex/base/executor.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/io/watched_file_system.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

/// Counts the files that are open for reading.
class CountedSource final : public ByteSource {
 public:
  CountedSource(std::unique_ptr<ByteSource> base, std::size_t* open) : base_(std::move(base)), open_(open) { ++*open_; }
  ~CountedSource() override { --*open_; }
  std::int64_t size() const override { return base_->size(); }
  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    return base_->read_at(offset, buffer);
  }
  const std::string& name() const override { return base_->name(); }

 private:
  std::unique_ptr<ByteSource> base_;
  std::size_t* open_;
};

class CountedFiles final : public MemoryFileSystem {
 public:
  Result<std::unique_ptr<ByteSource>> open_below(const std::string& folder, const std::string& relative) override {
    TENPLEX_ASSIGN_OR_RETURN(auto source, MemoryFileSystem::open_below(folder, relative));
    auto counted = std::make_unique<CountedSource>(std::move(source), &open_count_);
    most_ = std::max(most_, open_count_);
    return std::unique_ptr<ByteSource>(std::move(counted));
  }

  std::size_t open_count_ = 0;
  std::size_t most_ = 0;
};

TEST(FilePool, ReadsMoreFilesThanItKeepsOpen) {
  CountedFiles files;
  FilePool pool(files, "/c");
  const std::size_t count = 3 * FilePool::kMaxOpen;
  for (std::size_t i = 0; i < count; ++i) {
    files.put_file("/c/" + std::to_string(i), std::to_string(1000 + i));
    ASSERT_TRUE(pool.add(std::to_string(i)));
  }
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(read_string(pool[i], 0, 4).value(), std::to_string(1000 + i));
    }
  }
  EXPECT_LE(files.most_, FilePool::kMaxOpen + 1);  // the new one is open before the oldest is closed
}

TEST(FilePool, ReadsFromManyThreadsWhileFilesAreClosed) {
  MemoryFileSystem files;
  FilePool pool(files, "/c");
  const std::size_t count = FilePool::kMaxOpen + 2;
  for (std::size_t i = 0; i < count; ++i) {
    files.put_file("/c/" + std::to_string(i), std::to_string(1000 + i));
    ASSERT_TRUE(pool.add(std::to_string(i)));
  }
  Executor executor(4);
  const auto read = executor.for_each(10 * static_cast<std::int64_t>(count), [&](std::int64_t call) -> Result<void> {
    const std::size_t i = static_cast<std::size_t>(call) % count;
    TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(pool[i], 0, 4));
    if (text != std::to_string(1000 + i)) return corrupt(text);
    return {};
  });
  EXPECT_TRUE(read) << read.error().to_string();
}

TEST(FilePool, RefusesAFileThatChangedWhileItWasClosed) {
  MemoryFileSystem memory;
  WatchedFileSystem files(memory);
  FilePool pool(files, "/c");
  for (std::size_t i = 0; i < FilePool::kMaxOpen + 1; ++i) {
    memory.put_file("/c/" + std::to_string(i), "abc");
    ASSERT_TRUE(pool.add(std::to_string(i)));
  }
  memory.put_file("/c/0", "xyz");
  EXPECT_THAT(read_string(pool[0], 0, 3).error().to_string(), HasSubstr("'/c/0' changed while it was read"));
}

}  // namespace
}  // namespace tenplex
