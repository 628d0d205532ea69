// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tenplex/io/testing/crash_model.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/io/testing/recording_file_system.h"
#include "tenplex/io/watched_file_system.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Result<void> write_file(AtomicTarget& target, const std::string& name, std::string_view text) {
  TENPLEX_ASSIGN_OR_RETURN(const auto sink, target.create_file(name));
  TENPLEX_TRY(sink->write_at(0, as_bytes(text)));
  return target.finish_file(*sink);
}

// Two data files, one in a sub-folder, then a manifest.
Result<void> write_folder(FileSystem& files, const CommitOptions& options, std::string_view data) {
  TENPLEX_ASSIGN_OR_RETURN(const auto target, AtomicTarget::begin(files, "/out/target", options));
  TENPLEX_TRY(write_file(*target, "a", data));
  TENPLEX_TRY(write_file(*target, "sub/b", data));
  TENPLEX_TRY(target->sync_names());
  TENPLEX_TRY(write_file(*target, "manifest", data));
  TENPLEX_TRY(target->sync_names());
  return target->commit();
}

Result<void> write_single(FileSystem& files, CommitOptions options, std::string_view data) {
  options.single_file = true;
  TENPLEX_ASSIGN_OR_RETURN(const auto target, AtomicTarget::begin(files, "/out/target", options));
  TENPLEX_TRY(write_file(*target, "", data));
  return target->commit();
}

TEST(AtomicTarget, AppearsWithAllItsFiles) {
  MemoryFileSystem files;
  files.put_folder("/out");
  ASSERT_TRUE(write_folder(files, {}, "new"));
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target/a", "target/manifest", "target/sub/b"));
  EXPECT_EQ(files.content("/out/target/sub/b").value(), "new");
}

TEST(AtomicTarget, RefusesAnExistingTarget) {
  MemoryFileSystem files;
  files.put_file("/out/target", "old");
  EXPECT_EQ(write_folder(files, {}, "new").error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(write_single(files, {}, "new").error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target"));
}

TEST(AtomicTarget, ReplacesAFileByAFolderAndBack) {
  MemoryFileSystem files;
  files.put_file("/out/target", "old");
  ASSERT_TRUE(write_folder(files, {.overwrite = true}, "new"));
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target/a", "target/manifest", "target/sub/b"));
  ASSERT_TRUE(write_single(files, {.overwrite = true}, "newer"));
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target"));
}

TEST(AtomicTarget, LeavesNothingWhenItIsDropped) {
  MemoryFileSystem files;
  files.put_folder("/out");
  {
    const auto target = AtomicTarget::begin(files, "/out/target", {}).value();
    ASSERT_TRUE(write_file(*target, "a", "x"));
    EXPECT_FALSE(files.files_below("/out").empty());
  }
  EXPECT_TRUE(files.list("/out").value().empty());
}

TEST(AtomicTarget, RemovesLeftoversOfKilledRunsOnly) {
  MemoryFileSystem files;
  files.put_file("/out/target.tenplex-partial-0123456789abcdef/a", "dead");
  files.put_file("/out/target.tenplex-partial-00000000000000ff", "alive");
  files.put_file("/out/other.tenplex-partial-0123456789abcdef", "another target's");
  files.put_file("/out/target.tenplex-partial-mine", "not our pattern");
  const auto alive = files.try_lock("/out/target.tenplex-partial-00000000000000ff").value();
  ASSERT_TRUE(write_single(files, {}, "new"));
  EXPECT_THAT(files.files_below("/out"),
              ElementsAre("other.tenplex-partial-0123456789abcdef", "target", "target.tenplex-partial-00000000000000ff",
                          "target.tenplex-partial-mine"));
}

TEST(AtomicTarget, TakesTheLongestNameThatAFileMayHave) {
  std::string folder = (std::filesystem::temp_directory_path() / "tenplex-commit-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto files = local_file_system();
  for (const std::string& name : {std::string(255, 'n'), "x" + std::string(254, 'n')}) {
    const auto target = AtomicTarget::begin(*files, folder + "/" + name, {.single_file = true}).value();
    ASSERT_TRUE(write_file(*target, "", "new"));
    ASSERT_TRUE(target->commit());
    EXPECT_TRUE(files->status(folder + "/" + name));
  }
  EXPECT_EQ(files->list(folder).value().size(), 2U);
  std::filesystem::remove_all(folder);
}

// 96 bytes of the name stay, but no half of a character: 32 of 3 bytes, or 95 and one of 2 that does not fit.
TEST(AtomicTarget, CutsLongNamesBetweenCharacters) {
  std::string euros;
  for (int i = 0; i < 40; ++i) euros += "\u20ac";
  for (const auto& [name, stem] : {std::pair{euros, euros.substr(0, 96)},
                                   std::pair{std::string(95, 'a') + "\u00e9" + "b", std::string(95, 'a')}}) {
    MemoryFileSystem files;
    files.put_folder("/out");
    files.put_file("/out/" + stem + ".tenplex-partial-0123456789abcdef", "dead");
    const auto target = AtomicTarget::begin(files, "/out/" + name, {}).value();
    EXPECT_EQ(target->partial_path().substr(0, 22 + stem.size()), "/out/" + stem + ".tenplex-partial-");
    EXPECT_EQ(target->partial_path().size(), 22 + stem.size() + 16);
    EXPECT_EQ(files.list("/out").value().size(), 1U);  // the leftover is gone
  }
}

TEST(AtomicTarget, RefusesATargetThatAppearedMeanwhile) {
  MemoryFileSystem files;
  files.put_folder("/out");
  {
    const auto target = AtomicTarget::begin(files, "/out/target", {}).value();
    files.put_file("/out/target", "somebody else's");
    EXPECT_EQ(target->commit().error().code(), ErrorCode::kAlreadyExists);
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target"));
}

// What stood there when the writer began was looked at; anything else is somebody's work.
TEST(AtomicTarget, KeepsATargetThatWasReplacedMeanwhile) {
  MemoryFileSystem files;
  files.put_file("/out/target", "old");
  {
    const auto target = AtomicTarget::begin(files, "/out/target", {.overwrite = true}).value();
    ASSERT_TRUE(files.remove_all("/out/target").has_value());
    files.put_file("/out/target", "newer");
    const auto committed = target->commit();
    ASSERT_FALSE(committed.has_value());
    EXPECT_THAT(committed.error().message(), ::testing::HasSubstr("changed or replaced"));
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target"));
  EXPECT_EQ(files.content("/out/target").value(), "newer");
}

TEST(AtomicTarget, KeepsAFolderThatGotAnotherFileMeanwhile) {
  MemoryFileSystem files;
  files.put_file("/out/target/sub/a", "old");
  {
    const auto target = AtomicTarget::begin(files, "/out/target", {.overwrite = true}).value();
    files.put_file("/out/target/sub/notes", "precious");
    EXPECT_EQ(target->commit().error().code(), ErrorCode::kAlreadyExists);
  }
  EXPECT_THAT(files.files_below("/out"), ElementsAre("target/sub/a", "target/sub/notes"));
}

TEST(AtomicTarget, KeepsWhatTheCallerDidNotSee) {
  MemoryFileSystem files;
  files.put_file("/out/target", "appeared before begin()");
  {
    const CommitOptions options{.overwrite = true, .replaced = TreeStamp()};
    const auto target = AtomicTarget::begin(files, "/out/target", options).value();
    EXPECT_EQ(target->commit().error().code(), ErrorCode::kAlreadyExists);
  }
  EXPECT_EQ(files.content("/out/target").value(), "appeared before begin()");
}

// The swap itself shows what stood there at that moment.
TEST(AtomicTarget, SwapsBackWhatCameBetweenLookAndSwap) {
  class Intruder : public WatchedFileSystem {
   public:
    explicit Intruder(MemoryFileSystem& files) : WatchedFileSystem(files), files_(files) {}
    Result<void> exchange(const std::string& a, const std::string& b) override {
      if (first_) static_cast<void>(files_.remove_all(b));
      if (first_) files_.put_file(b, "newer");
      first_ = false;
      return files_.exchange(a, b);
    }

   private:
    MemoryFileSystem& files_;
    bool first_ = true;
  };
  MemoryFileSystem memory;
  memory.put_file("/out/target", "old");
  Intruder files(memory);
  EXPECT_EQ(write_single(files, {.overwrite = true}, "new").error().code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(memory.files_below("/out"), ElementsAre("target"));
  EXPECT_EQ(memory.content("/out/target").value(), "newer");
}

TEST(AtomicTarget, NamesAnOldTargetThatCannotBeRemoved) {
  class Stuck : public WatchedFileSystem {
   public:
    using WatchedFileSystem::WatchedFileSystem;
    Result<void> remove_all(const std::string& path) override { return io_error(path + ": Operation not permitted"); }
  };
  MemoryFileSystem memory;
  memory.put_file("/out/target", "old");
  Stuck files(memory);
  const auto target = AtomicTarget::begin(files, "/out/target", {.single_file = true, .overwrite = true}).value();
  ASSERT_TRUE(write_file(*target, "", "new").has_value());
  ASSERT_TRUE(target->commit().has_value());
  EXPECT_EQ(memory.content("/out/target").value(), "new");
  EXPECT_EQ(memory.content(target->left_behind()).value(), "old");
}

TEST(AtomicTarget, RefusesUnsafeNames) {
  MemoryFileSystem files;
  files.put_folder("/out");
  const auto target = AtomicTarget::begin(files, "/out/target", {}).value();
  EXPECT_EQ(target->create_file("../x").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(target->create_file("/x").error().code(), ErrorCode::kInvalidArgument);
}

// What a reader may find under the target's name: all of the old, all of the new, or nothing.
class Crash : public ::testing::TestWithParam<bool> {
 public:
  static Result<void> write(FileSystem& files, bool overwrite) {
    const CommitOptions options{.overwrite = overwrite};
    return GetParam() ? write_folder(files, options, kNew) : write_single(files, options, kNew);
  }

  static void put_old(auto& files) {
    if (GetParam()) {
      files.put_file("/out/target/a", "old");
      files.put_file("/out/target/manifest", "old");
    } else {
      files.put_file("/out/target", "old");
    }
  }

  static std::string state_of(const MemoryFileSystem& files) {
    const std::vector<std::string> names = files.files_below("/out/target");
    const auto has = [&](const std::string& name, std::string_view text) {
      const auto content = files.content("/out/target" + name);
      return content && *content == text;
    };
    if (GetParam()) {
      if (names == std::vector<std::string>{"a", "manifest"} && has("/a", "old") && has("/manifest", "old"))
        return "old";
      if (names.size() == 3 && has("/a", kNew) && has("/sub/b", kNew) && has("/manifest", kNew)) return "new";
    } else {
      if (has("", "old")) return "old";
      if (has("", kNew)) return "new";
    }
    return files.content("/out/target") || !names.empty() ? "damaged" : "nothing";
  }

  inline static const std::string kNew = std::string(2000, 'n');
};

INSTANTIATE_TEST_SUITE_P(Kinds, Crash, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "Folder" : "File"; });

TEST_P(Crash, LeavesTheOldOrTheNewAtEveryPoint) {
  for (const bool overwrite : {false, true}) {
    MemoryFileSystem memory;
    memory.put_folder("/out");
    CrashModel model;
    model.put_folder("/out");
    if (overwrite) {
      put_old(memory);
      put_old(model);
    }
    RecordingFileSystem files(memory);
    ASSERT_TRUE(write(files, overwrite));
    const std::string before = overwrite ? "old" : "nothing";
    for (const FileOperation& operation : files.operations()) {
      model.apply(operation);
      using Survivors = CrashModel::Survivors;
      for (const Survivors survivors :
           {Survivors::kNothing, Survivors::kEverything, Survivors::kNamesOnly, Survivors::kDataOnly}) {
        EXPECT_THAT(state_of(*model.crash(survivors)), ::testing::AnyOf(before, "new"));
      }
      for (std::uint64_t seed = 0; seed < 50; ++seed)
        EXPECT_THAT(state_of(*model.crash(Survivors::kSome, seed)), ::testing::AnyOf(before, "new"));
    }
    EXPECT_EQ(state_of(*model.crash(CrashModel::Survivors::kNothing)), "new");
  }
}

TEST_P(Crash, IsFoundByTheModelWhenFilesAreNotSynced) {
  MemoryFileSystem memory;
  memory.put_folder("/out");
  CrashModel model;
  model.put_folder("/out");
  RecordingFileSystem files(memory);
  const CommitOptions options{.sync = false};
  ASSERT_TRUE(GetParam() ? write_folder(files, options, kNew) : write_single(files, options, kNew));
  for (const FileOperation& operation : files.operations()) model.apply(operation);
  EXPECT_EQ(state_of(*model.crash(CrashModel::Survivors::kNamesOnly)), "damaged");
}

TEST_P(Crash, AnErrorAtAnyCallLeavesTheOldTargetAndNoPartial) {
  for (const bool overwrite : {false, true}) {
    for (std::int64_t call = 0;; ++call) {
      MemoryFileSystem memory;
      memory.put_folder("/out");
      if (overwrite) put_old(memory);
      RecordingFileSystem files(memory);
      files.fail_call(call, EIO);
      const auto result = write(files, overwrite);
      if (files.call_count() <= call) break;
      // Cleaning up leftovers and the old target may fail without harm; everything else must be reported.
      const std::string expected = result ? "new" : overwrite ? "old" : "nothing";
      EXPECT_EQ(state_of(memory), expected) << "call " << call;
      if (!result) {
        EXPECT_EQ(memory.list("/out").value().size(), overwrite ? 1U : 0U) << "call " << call;
      }
    }
  }
}

TEST_P(Crash, AFullDiskLeavesNothing) {
  for (std::int64_t bytes = 0; bytes < 2000; bytes += 399) {
    MemoryFileSystem memory;
    memory.put_folder("/out");
    RecordingFileSystem files(memory);
    files.limit_written_bytes(bytes);
    EXPECT_EQ(write(files, false).error().code(), ErrorCode::kResourceExhausted);
    EXPECT_TRUE(memory.list("/out").value().empty());
  }
}

}  // namespace
}  // namespace tenplex
