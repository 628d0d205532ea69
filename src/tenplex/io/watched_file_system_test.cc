// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/watched_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

class Watched : public ::testing::Test {
 public:
  std::string found() {
    const auto checked = files_.check();
    return checked ? "unchanged" : checked.error().to_string();
  }
  MemoryFileSystem memory_;
  WatchedFileSystem files_{memory_};
};

TEST_F(Watched, LetsFilesAloneThatNobodyChanged) {
  memory_.put_file("/c/a", "abc");
  memory_.put_file("/c/b", "abc");
  ASSERT_TRUE(files_.open_below("/c", "a"));
  ASSERT_TRUE(files_.open_below("/c", "a"));
  memory_.put_file("/c/b", "xyz");  // nobody read it
  EXPECT_EQ(found(), "unchanged");
}

TEST_F(Watched, FindsAFileWrittenInPlace) {
  const auto sink = memory_.create("/a").value();
  ASSERT_TRUE(sink->write_at(0, as_bytes("abc")));
  ASSERT_TRUE(files_.open("/a"));
  ASSERT_TRUE(sink->write_at(1, as_bytes("B")));
  EXPECT_EQ(found(), "'/a' changed while it was read: it was written to");
  EXPECT_EQ(files_.open("/a").error().to_string(), "'/a' changed while it was read: it was written to");
}

TEST_F(Watched, FindsAFileThatGrew) {
  const auto sink = memory_.create("/a").value();
  ASSERT_TRUE(sink->write_at(0, as_bytes("abc")));
  ASSERT_TRUE(files_.open("/a"));
  ASSERT_TRUE(sink->write_at(3, as_bytes("d")));
  EXPECT_EQ(found(), "'/a' changed while it was read: it had 3 bytes before and has 4 now");
}

TEST_F(Watched, FindsAnotherFileOfTheSameName) {
  memory_.put_file("/c/a", "abc");
  ASSERT_TRUE(files_.open_below("/c", "a"));
  memory_.put_file("/c/a", "abc");
  EXPECT_EQ(found(), "'/c/a' changed while it was read: another file has taken its place");
}

TEST_F(Watched, FindsALinkThatLeadsElsewhere) {
  memory_.put_file("/c/1", "abc");
  memory_.put_file("/c/2", "abc");
  memory_.put_link("/c/latest", "1");
  ASSERT_TRUE(files_.open_below("/c", "latest"));
  memory_.put_link("/c/latest", "2");
  EXPECT_THAT(found(), HasSubstr("'/c/latest' changed"));
}

TEST_F(Watched, FindsAFileThatIsGone) {
  memory_.put_file("/c/a", "abc");
  ASSERT_TRUE(files_.open_below("/c", "a"));
  ASSERT_TRUE(memory_.remove_all("/c/a"));
  EXPECT_THAT(found(), HasSubstr("'/c/a' changed while it was read: cannot open"));
}

TEST(WatchedLocally, SeesWritesButNeitherReadsNorLinksNorPermissions) {
  std::string folder = (std::filesystem::temp_directory_path() / "tenplex-watched-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/a";
  std::ofstream(path) << "abc";
  const auto local = local_file_system();
  WatchedFileSystem files(*local);
  ASSERT_TRUE(files.open(path));
  std::ifstream(path).get();
  EXPECT_EQ(::link(path.c_str(), (folder + "/b").c_str()), 0);
  EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(files.check());
  const auto later = std::filesystem::last_write_time(path) + std::chrono::nanoseconds(1);
  std::filesystem::last_write_time(path, later);  // as a write would; the clock may stand still in between
  EXPECT_FALSE(files.check());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tenplex
