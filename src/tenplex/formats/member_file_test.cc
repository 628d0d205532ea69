// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/member_file.h"

#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

struct Snapshot {
  MemoryFileSystem files;

  Snapshot() {
    files.put_file("/cache/blobs/1", "one");
    files.put_file("/cache/snap/a", "aaaa");
    files.put_file("/cache/snap/sub/b", "bb");
    files.put_link("/cache/snap/inner", "sub/b");
    files.put_file("/cache/snap/.git/config", "x");
  }
};

TEST(OpenMember, RefusesALinkThatLeavesTheFolderAndNamesTheOption) {
  Snapshot snapshot;
  snapshot.files.put_link("/cache/snap/outer", "../blobs/1");
  const auto refused = open_member(snapshot.files, "/cache/snap", "outer", false);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("--follow-links"), std::string::npos);
  const auto followed = open_member(snapshot.files, "/cache/snap", "outer", true);
  ASSERT_TRUE(followed.has_value()) << followed.error().to_string();
  EXPECT_EQ((*followed)->size(), 3);
}

TEST(OpenMember, NamesNoOptionWhereItWouldNotHelp) {
  Snapshot snapshot;
  for (const bool follow : {false, true}) {
    const auto above = open_member(snapshot.files, "/cache/snap", "../blobs/1", follow);
    ASSERT_FALSE(above.has_value());
    EXPECT_EQ(above.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(above.error().message().find("--follow-links"), std::string::npos);
    const auto missing = open_member(snapshot.files, "/cache/snap", "none", follow);
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  }
}

TEST(ListMembers, ListsFilesOfAllFoldersSortedAndNotesWhatItLeavesOut) {
  Snapshot snapshot;
  std::vector<ExtraFile> members;
  std::vector<std::string> problems;
  ASSERT_TRUE(list_members(snapshot.files, "/cache/snap", false, &members, &problems).has_value());
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].path, "a");
  EXPECT_EQ(members[1].path, "inner");
  EXPECT_EQ(members[1].size_bytes, 2);
  EXPECT_EQ(members[2].path, "sub/b");
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find(".git"), std::string::npos);
}

TEST(NoteOtherFiles, CountsWhatIsNotListed) {
  Snapshot snapshot;
  CheckpointInfo info;
  info.files = {"a"};
  info.extra_files = {{"sub/b", 2}};
  note_other_files(snapshot.files, "/cache/snap", {".git"}, &info);
  ASSERT_EQ(info.problems.size(), 1U);
  EXPECT_EQ(info.problems[0], "'inner' is no part of the checkpoint and left out");
  note_other_files(snapshot.files, "/cache/snap", {".git", "inner"}, &info);
  EXPECT_EQ(info.problems.size(), 1U);
  note_other_files(snapshot.files, "/cache/snap", {}, &info);
  EXPECT_EQ(info.problems.back(), "'.git' and 1 more are no part of the checkpoint and left out");
}

TEST(ListMembers, RefusesFoldersNestedTooDeeply) {
  MemoryFileSystem files;
  std::string path = "/f";
  for (int level = 0; level < 20; ++level) path += "/d";
  files.put_file(path + "/x", "x");
  std::vector<ExtraFile> members;
  std::vector<std::string> problems;
  EXPECT_EQ(list_members(files, "/f", false, &members, &problems).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tenplex
