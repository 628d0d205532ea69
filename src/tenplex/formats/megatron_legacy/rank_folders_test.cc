// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/rank_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex::megatron_legacy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string message(const Error& error) { return error.to_string(); }

void put_ranks(MemoryFileSystem* files, const std::vector<std::string>& names) {
  files->put_folder("/c");
  for (const std::string& name : names) {
    files->put_folder("/c/" + name);
    files->put_file("/c/" + name + "/model_optim_rng.pt", "");
  }
}

TEST(RankFolders, NumbersFollowThePrefix) {
  EXPECT_THAT(parse_rank_folder("mp_rank_00"), ElementsAre(0));
  EXPECT_THAT(parse_rank_folder("mp_rank_01_003"), ElementsAre(1, 3));
  EXPECT_THAT(parse_rank_folder("mp_rank_01_003_012"), ElementsAre(1, 3, 12));
}

TEST(RankFolders, OtherNamesAreNoRanks) {
  for (const char* name : {"mp_rank_", "mp_rank_0", "mp_rank_00_", "mp_rank_00__1", "mp_rank_-1", "mp_rank_0x",
                           "mp_rank_00_001_002_003", "mp_rank_00_model_states.pt", "mp_rank_0000000", "rank_00"})
    EXPECT_THAT(parse_rank_folder(name), IsEmpty()) << name;
}

TEST(RankFolders, AreAGridWithTensorRanksFastest) {
  MemoryFileSystem files;
  put_ranks(&files, {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"});
  const auto found = list_rank_folders(files, "/c", SecondNumber::kPipeline);
  ASSERT_TRUE(found) << message(found.error());
  EXPECT_EQ(found->tensor_size, 2);
  EXPECT_EQ(found->pipeline_size, 2);
  EXPECT_EQ(found->expert_size, 1);
  EXPECT_EQ(found->ranks[1].name, "mp_rank_01_000");
  EXPECT_EQ(found->at(0, 0, 1).name, "mp_rank_00_001");
}

TEST(RankFolders, TheSecondNumberMayBeOfExperts) {
  MemoryFileSystem files;
  put_ranks(&files, {"mp_rank_00_000", "mp_rank_00_001"});
  const auto found = list_rank_folders(files, "/c", SecondNumber::kExpert);
  ASSERT_TRUE(found) << message(found.error());
  EXPECT_EQ(found->pipeline_size, 1);
  EXPECT_EQ(found->expert_size, 2);
}

TEST(RankFolders, NameTheRankThatIsMissing) {
  MemoryFileSystem files;
  put_ranks(&files, {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_001"});
  const auto found = list_rank_folders(files, "/c", SecondNumber::kPipeline);
  ASSERT_FALSE(found);
  EXPECT_THAT(message(found.error()), HasSubstr("tensor rank 1, pipeline rank 0, expert rank 0 is missing"));
}

TEST(RankFolders, ThatTheLastRankIsMissingIsAnError) {
  MemoryFileSystem files;
  put_ranks(&files, {"mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000"});
  EXPECT_FALSE(list_rank_folders(files, "/c", SecondNumber::kPipeline));
}

TEST(RankFolders, OfTwoFormsAreRefused) {
  MemoryFileSystem files;
  put_ranks(&files, {"mp_rank_00", "mp_rank_01_000"});
  const auto found = list_rank_folders(files, "/c", SecondNumber::kPipeline);
  ASSERT_FALSE(found);
  EXPECT_THAT(message(found.error()), HasSubstr("'mp_rank_01_000' has another form than 'mp_rank_00'"));
}

TEST(RankFolders, OneRankUnderTwoNamesIsRefused) {
  MemoryFileSystem files;
  put_ranks(&files, {"mp_rank_00", "mp_rank_000"});
  const auto found = list_rank_folders(files, "/c", SecondNumber::kPipeline);
  ASSERT_FALSE(found);
  EXPECT_THAT(message(found.error()), HasSubstr("are the same rank"));
}

}  // namespace
}  // namespace tenplex::megatron_legacy
