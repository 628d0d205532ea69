// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/added_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/io/testing/recording_file_system.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;

Result<void> write_file(AddedFiles& added, const std::string& name) {
  TENPLEX_ASSIGN_OR_RETURN(const auto sink, added.create_file(name, 3));
  TENPLEX_TRY(sink->write_at(0, as_bytes(std::string_view("new"))));
  return sink->finish();
}

TEST(AddedFiles, StayWhenKept) {
  MemoryFileSystem files;
  files.put_folder("/out");
  {
    AddedFiles added(files, "/out/objects/");
    ASSERT_TRUE(write_file(added, "a"));
    ASSERT_TRUE(write_file(added, "sub/b"));
    ASSERT_TRUE(added.publish());
    ASSERT_TRUE(added.sync_names());
    added.keep();
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("objects/a", "objects/sub/b"));
}

TEST(AddedFiles, SyncWhatIsThereAlready) {
  MemoryFileSystem memory;
  memory.put_file("/out/objects/a", "new");
  RecordingFileSystem files(memory);
  AddedFiles added(files, "/out/objects");
  ASSERT_TRUE(write_file(added, "a"));
  ASSERT_TRUE(added.publish());
  ASSERT_TRUE(added.sync_names());
  added.keep();
  std::vector<std::string> synced;
  for (const FileOperation& operation : files.operations())
    if (operation.kind == FileOperation::Kind::kSyncFile || operation.kind == FileOperation::Kind::kSyncFolder)
      synced.push_back(operation.path);
  EXPECT_THAT(synced, ElementsAre("/out/objects/a", "/out/objects"));
}

TEST(AddedFiles, GoAgainAndLeaveWhatWasThere) {
  MemoryFileSystem files;
  files.put_file("/out/objects/old", "old");
  for (const bool published : {false, true}) {
    AddedFiles added(files, "/out/objects");
    ASSERT_TRUE(write_file(added, "a"));
    ASSERT_TRUE(write_file(added, "sub/b"));
    if (published) {
      ASSERT_TRUE(added.publish());
    }
    EXPECT_EQ(write_file(added, "old").error().code(), ErrorCode::kAlreadyExists);
    EXPECT_EQ(added.create_file("old", 4).error().code(), ErrorCode::kAlreadyExists);
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("objects/old"));
  EXPECT_FALSE(files.status("/out/objects/sub"));
}

TEST(AddedFiles, AppearWholeOrNotAtAll) {
  MemoryFileSystem files;
  files.put_folder("/out");
  AddedFiles added(files, "/out/objects");
  ASSERT_TRUE(write_file(added, "a"));
  EXPECT_FALSE(files.status("/out/objects/a"));
  ASSERT_TRUE(added.publish());
  EXPECT_TRUE(files.status("/out/objects/a"));
}

TEST(AddedFiles, TakeWhatAKilledRunLeftBehind) {
  MemoryFileSystem files;
  files.put_file("/out/objects/a", "new");                                  // it got as far as publish()
  files.put_file("/out/objects/b.tenplex-partial-0123456789abcdef", "ne");  // and not as far as that
  {
    AddedFiles added(files, "/out/objects");
    ASSERT_TRUE(write_file(added, "a"));
    ASSERT_TRUE(write_file(added, "b"));
    ASSERT_TRUE(added.publish());
    added.keep();
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("objects/a", "objects/b"));
}

TEST(AddedFiles, LeaveAFolderThatSomebodyElseUses) {
  MemoryFileSystem files;
  files.put_folder("/out");
  {
    AddedFiles added(files, "/out/objects");
    ASSERT_TRUE(write_file(added, "a"));
    files.put_file("/out/objects/theirs", "x");
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("objects/theirs"));
}

TEST(AddedFiles, StayInTheirFolder) {
  MemoryFileSystem files;
  files.put_folder("/out");
  AddedFiles added(files, "/out/objects");
  EXPECT_EQ(added.create_file("../a", 3).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(files.status("/out/objects"));
}

}  // namespace
}  // namespace tenplex
