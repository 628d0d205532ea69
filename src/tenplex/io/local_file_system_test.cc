// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The same behaviour is asked of the local file system and of the one in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tenplex/io/file_system.h"
#include "tenplex/io/local_file.h"
#include "tenplex/io/open_below.h"
#include "tenplex/io/path.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tenplex-io-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class AnyFileSystem : public ::testing::TestWithParam<bool> {
 public:
  AnyFileSystem() {
    if (GetParam()) {
      files_ = local_file_system();
      root_ = folder_.path();
    } else {
      auto memory = std::make_unique<MemoryFileSystem>();
      memory->put_folder("/root");
      memory_ = memory.get();
      files_ = std::move(memory);
      root_ = "/root";
    }
  }

  std::string at(const std::string& name) const { return root_ + "/" + name; }

  void write(const std::string& name, std::string_view text) {
    auto sink = files_->create(at(name));
    ASSERT_TRUE(sink) << sink.error().to_string();
    ASSERT_TRUE((*sink)->write_at(0, as_bytes(text)));
    ASSERT_TRUE((*sink)->finish());
  }

  std::string read(const std::string& name) {
    auto source = files_->open(at(name));
    if (!source) return source.error().to_string();
    return read_string(**source, 0, (*source)->size()).value();
  }

  void link(const std::string& name, const std::string& target) {
    if (memory_ != nullptr) {
      memory_->put_link(at(name), target);
    } else {
      ASSERT_EQ(::symlink(target.c_str(), at(name).c_str()), 0);
    }
  }

  std::string read_below(const std::string& relative) {
    auto source = files_->open_below(root_, relative);
    if (!source) return std::string(to_string(source.error().code()));
    return read_string(**source, 0, (*source)->size()).value();
  }

  TemporaryFolder folder_;
  std::unique_ptr<FileSystem> files_;
  MemoryFileSystem* memory_ = nullptr;
  std::string root_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, AnyFileSystem, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "Local" : "Memory"; });

TEST_P(AnyFileSystem, ReadsWhatWasWritten) {
  write("a", "hello");
  EXPECT_EQ(read("a"), "hello");
}

TEST_P(AnyFileSystem, WritesPartsInAnyOrder) {
  auto sink = files_->create(at("a")).value();
  ASSERT_TRUE(sink->write_at(3, as_bytes("de")));
  ASSERT_TRUE(sink->write_at(0, as_bytes("abc")));
  ASSERT_TRUE(sink->close());
  EXPECT_EQ(read("a"), "abcde");
}

TEST_P(AnyFileSystem, RefusesToCreateAnExistingFile) {
  write("a", "1");
  EXPECT_EQ(files_->create(at("a")).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(read("a"), "1");
}

TEST_P(AnyFileSystem, RefusesToCreateThroughALink) {
  link("a", "elsewhere");
  EXPECT_EQ(files_->create(at("a")).error().code(), ErrorCode::kAlreadyExists);
}

TEST_P(AnyFileSystem, ReportsAMissingFile) {
  EXPECT_EQ(files_->open(at("none")).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(files_->status(at("none")).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(files_->list(at("none")).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(files_->create(at("none/a")).error().code(), ErrorCode::kNotFound);
}

TEST_P(AnyFileSystem, RefusesToOpenAFolder) {
  ASSERT_TRUE(files_->make_folder(at("d")));
  EXPECT_EQ(files_->open(at("d")).error().code(), ErrorCode::kInvalidArgument);
}

TEST_P(AnyFileSystem, RefusesReadsPastTheEnd) {
  write("a", "hello");
  const auto source = files_->open(at("a")).value();
  std::array<std::byte, 3> buffer{};
  EXPECT_EQ(source->read_at(3, buffer).error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(source->read_at(-1, buffer).error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(read_string(*source, 1, std::int64_t{1} << 60).error().code(), ErrorCode::kOutOfRange);
  EXPECT_TRUE(source->read_at(2, buffer));
}

TEST_P(AnyFileSystem, ListsEntriesByName) {
  write("b", "12");
  ASSERT_TRUE(files_->make_folder(at("a")));
  link("c", "b");
  const auto entries = files_->list(root_).value();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].status.kind, FileKind::kFolder);
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[1].status.size_bytes, 2);
  EXPECT_EQ(entries[2].status.kind, FileKind::kLink);
}

TEST_P(AnyFileSystem, GivesOneFileSystemOneNumber) {
  ASSERT_TRUE(files_->make_folder(at("d")));
  const auto root = files_->free_space(root_);
  ASSERT_TRUE(root) << root.error().to_string();
  EXPECT_EQ(files_->free_space(at("d")).value().file_system, root->file_system);
  EXPECT_EQ(files_->free_space(at("none")).error().code(), ErrorCode::kNotFound);
}

TEST_P(AnyFileSystem, RenameKeepsAnExistingTarget) {
  write("a", "1");
  write("b", "2");
  EXPECT_EQ(files_->rename_new(at("a"), at("b")).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(read("b"), "2");
  ASSERT_TRUE(files_->rename_new(at("a"), at("c")));
  EXPECT_EQ(read("c"), "1");
  EXPECT_FALSE(files_->status(at("a")));
}

TEST_P(AnyFileSystem, ExchangesAFileAndAFolder) {
  write("a", "1");
  ASSERT_TRUE(files_->make_folder(at("d")));
  write("d/x", "2");
  ASSERT_TRUE(files_->exchange(at("a"), at("d")));
  EXPECT_EQ(read("d"), "1");
  EXPECT_EQ(read("a/x"), "2");
  EXPECT_EQ(files_->exchange(at("a"), at("none")).error().code(), ErrorCode::kNotFound);
}

TEST_P(AnyFileSystem, RemovesAFolderButNotWhatItsLinksPointTo) {
  ASSERT_TRUE(files_->make_folder(at("d")));
  write("keep", "1");
  link("d/link", "../keep");
  ASSERT_TRUE(files_->sync_folder(at("d")));
  ASSERT_TRUE(files_->remove_all(at("d")));
  EXPECT_FALSE(files_->status(at("d")));
  EXPECT_EQ(read("keep"), "1");
}

TEST_P(AnyFileSystem, SyncsAFileThatIsThere) {
  write("a", "1");
  EXPECT_TRUE(files_->sync_file(at("a")));
  EXPECT_EQ(files_->sync_file(at("none")).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(read("a"), "1");
}

TEST_P(AnyFileSystem, OneHolderHasTheLock) {
  ASSERT_TRUE(files_->make_folder(at("d")));
  auto first = files_->try_lock(at("d")).value();
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(files_->try_lock(at("d")).value(), nullptr);
  ASSERT_TRUE(files_->rename_new(at("d"), at("e")));
  EXPECT_EQ(files_->try_lock(at("e")).value(), nullptr);
  first.reset();
  EXPECT_NE(files_->try_lock(at("e")).value(), nullptr);
}

TEST_P(AnyFileSystem, OpensBelowAFolderThroughInnerLinks) {
  ASSERT_TRUE(files_->make_folder(at("d")));
  write("d/x", "inside");
  link("d/up", "../d/x");
  link("folder", "d");
  EXPECT_EQ(read_below("d/x"), "inside");
  EXPECT_EQ(read_below("d/up"), "inside");
  EXPECT_EQ(read_below("folder/up"), "inside");
}

TEST_P(AnyFileSystem, RefusesPathsThatLeaveTheFolder) {
  ASSERT_TRUE(files_->make_folder(at("d")));
  link("d/out", "../../etc/passwd");
  link("absolute", "/etc/passwd");
  link("loop", "loop");
  EXPECT_EQ(read_below("d/out"), "invalid_argument");
  EXPECT_EQ(read_below("absolute"), "invalid_argument");
  EXPECT_EQ(read_below("../x"), "invalid_argument");
  EXPECT_EQ(read_below("/etc/passwd"), "invalid_argument");
  EXPECT_EQ(read_below("loop"), "io");
  EXPECT_EQ(read_below("none"), "not_found");
}

TEST(WalkBelow, AgreesWithTheKernel) {
  const TemporaryFolder folder;
  const auto at = [&](const std::string& name) { return folder.path() + "/" + name; };
  std::filesystem::create_directories(at("a/b"));
  std::ofstream(at("a/b/x")) << "x";
  for (const auto& [target, name] : std::vector<std::pair<std::string, std::string>>{
           {"b/../b/x", "a/l1"}, {"../..", "a/b/l2"}, {"/", "l3"}, {"l4", "l4"}, {"../a/l1", "a/l5"}}) {
    ASSERT_EQ(::symlink(target.c_str(), at(name).c_str()), 0);
  }
  for (const std::string path : {"a/b/x", "a/l1", "a/l5", "a/b/l2/y", "l3/etc", "l4", "none", "a/b/x/y", "a/../a/l1"}) {
    const auto kernel = open_descriptor_below(folder.path(), path);
    const auto walked = walk_descriptor_below(folder.path(), path);
    ASSERT_EQ(kernel.has_value(), walked.has_value()) << path;
    if (!kernel) {
      EXPECT_EQ(kernel.error().code(), walked.error().code()) << path;
    }
  }
}

TEST(LocalSource, SaysThatAFileBecameShorter) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a";
  std::ofstream(path) << "hello";
  const auto files = local_file_system();
  const auto source = files->open(path).value();
  ASSERT_EQ(::truncate(path.c_str(), 2), 0);
  std::array<std::byte, 5> buffer{};
  EXPECT_EQ(source->read_at(0, buffer).error().code(), ErrorCode::kCorrupt);
}

TEST(LocalSource, DoesNotWaitOnAFifo) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(local_file_system()->open(path).error().code(), ErrorCode::kInvalidArgument);
}

TEST(LocalFileSystem, GivesFilesTheUsersMode) {
  const TemporaryFolder folder;
  const mode_t old_mask = ::umask(027);
  ASSERT_TRUE(local_file_system()->create(folder.path() + "/a"));
  ::umask(old_mask);
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

TEST(LocalFileSystem, CopiesPermissions) {
  const TemporaryFolder folder;
  const auto files = local_file_system();
  const std::string file = folder.path() + "/file";
  const std::string other = folder.path() + "/other";
  const std::string inner = folder.path() + "/inner";
  const std::string outer = folder.path() + "/outer";
  for (const std::string& path : {file, other}) ASSERT_TRUE(files->create(path));
  for (const std::string& path : {inner, outer}) ASSERT_TRUE(files->make_folder(path));
  const auto copied = [&](const std::string& from, mode_t mode, const std::string& path) {
    EXPECT_EQ(::chmod(from.c_str(), mode), 0);
    EXPECT_TRUE(files->copy_permissions(from, path));
    return mode_of(path);
  };
  EXPECT_EQ(copied(file, 0600, other), 0600U);
  EXPECT_EQ(copied(file, 0666, other), 0666U);
  EXPECT_EQ(copied(inner, 0700, outer), 0700U);
  EXPECT_EQ(copied(inner, 0550, outer), 0750U);
  EXPECT_EQ(copied(file, 0640, outer), 0750U);
  EXPECT_EQ(copied(inner, 0750, other), 0640U);
  EXPECT_EQ(::chmod(outer.c_str(), 02755), 0);
  EXPECT_EQ(copied(inner, 0700, outer), 02700U);
  ASSERT_EQ(::symlink("file", (folder.path() + "/link").c_str()), 0);
  ASSERT_TRUE(files->copy_permissions(folder.path() + "/link", other));
  EXPECT_EQ(mode_of(other), 0640U);
  EXPECT_EQ(files->copy_permissions(folder.path() + "/none", other).error().code(), ErrorCode::kNotFound);
}

TEST(CheckedJoin, RefusesUnsafePaths) {
  for (const std::string_view path : {"", "/a", "a/../b", "..", "./a", "a/"}) {
    EXPECT_EQ(checked_join("f", path).error().code(), ErrorCode::kInvalidArgument) << path;
  }
  EXPECT_FALSE(checked_join("f", std::string_view("a\0b", 3)));
  EXPECT_EQ(checked_join("f", "a/b..c").value(), "f/a/b..c");
}

TEST(Path, SplitsNames) {
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(last_component("a/b//"), "b");
  EXPECT_THAT(path_components("/a//b/./c"), ElementsAre("a", "b", ".", "c"));
}

}  // namespace
}  // namespace tenplex
