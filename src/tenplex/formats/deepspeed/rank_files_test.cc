// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/rank_files.h"

#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex::deepspeed {
namespace {

TEST(RankFile, IsNamedForItsRanks) {
  const auto model = parse_rank_file("mp_rank_00_model_states.pt");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->kind, RankFile::Kind::kModel);
  const auto zero = parse_rank_file("zero_pp_rank_12_mp_rank_03_model_states.pt");
  ASSERT_TRUE(zero.has_value());
  EXPECT_EQ(zero->kind, RankFile::Kind::kZeroModel);
  EXPECT_EQ(zero->data_rank, 12);
  EXPECT_EQ(zero->model_rank, 3);
  const auto optimizer = parse_rank_file("bf16_zero_pp_rank_7_mp_rank_00_optim_states.pt");
  ASSERT_TRUE(optimizer.has_value());
  EXPECT_EQ(optimizer->kind, RankFile::Kind::kOptimizer);
  EXPECT_EQ(optimizer->data_rank, 7);
}

TEST(RankFile, IsNoOtherName) {
  for (const std::string_view name :
       {"layer_00-model_00-model_states.pt", "layer_0_expert_1_mp_rank_00_model_states.pt", "mp_rank_model_states.pt",
        "mp_rank_00_optim_states.pt", "zero_pp_rank_-1_mp_rank_00_optim_states.pt",
        "zero_pp_rank_99999999999999999999_mp_rank_00_optim_states.pt", "expp_rank_0_mp_rank_00_optim_states.pt",
        "mp_rank_00_model_states.pt.tmp", "bf16_mp_rank_00_model_states.pt", ""})
    EXPECT_FALSE(parse_rank_file(name).has_value()) << name;
}

TEST(TagFiles, AreInTheOrderOfTheirRanks) {
  MemoryFileSystem files;
  for (int rank = 0; rank < 11; ++rank)
    files.put_file("/c/zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_optim_states.pt", "");
  files.put_file("/c/mp_rank_00_model_states.pt", "");
  const auto tag = list_tag_files(files, "/c");
  ASSERT_TRUE(tag.has_value());
  EXPECT_EQ(tag->ranks[0].optimizers[10], "zero_pp_rank_10_mp_rank_00_optim_states.pt");
  EXPECT_EQ(tag->ranks[0].optimizers[2], "zero_pp_rank_2_mp_rank_00_optim_states.pt");
  EXPECT_FALSE(tag->universal);
}

TEST(TagFiles, HaveNoGaps) {
  MemoryFileSystem files;
  files.put_file("/c/mp_rank_00_model_states.pt", "");
  files.put_file("/c/zero_pp_rank_0_mp_rank_00_optim_states.pt", "");
  files.put_file("/c/zero_pp_rank_2_mp_rank_00_optim_states.pt", "");
  const auto tag = list_tag_files(files, "/c");
  ASSERT_FALSE(tag.has_value());
  EXPECT_EQ(tag.error().code(), ErrorCode::kCorrupt);
}

TEST(TagFiles, AreTheSameOnEveryTensorRank) {
  MemoryFileSystem files;
  files.put_file("/c/mp_rank_00_model_states.pt", "");
  files.put_file("/c/mp_rank_01_model_states.pt", "");
  files.put_file("/c/zero_pp_rank_0_mp_rank_00_optim_states.pt", "");
  EXPECT_FALSE(list_tag_files(files, "/c").has_value());
  files.put_file("/c/zero_pp_rank_0_mp_rank_01_optim_states.pt", "");
  const auto tag = list_tag_files(files, "/c");
  ASSERT_TRUE(tag.has_value());
  EXPECT_EQ(tag->ranks[1].models(), std::vector<std::string>{"mp_rank_01_model_states.pt"});
  files.put_file("/c/mp_rank_03_model_states.pt", "");
  files.put_file("/c/zero_pp_rank_0_mp_rank_03_optim_states.pt", "");
  EXPECT_FALSE(list_tag_files(files, "/c").has_value());
}

TEST(TagFolder, IsWhatLatestNames) {
  MemoryFileSystem files;
  files.put_file("/c/step1/mp_rank_00_model_states.pt", "");
  files.put_file("/c/step1_universal/mp_rank_00_model_states.pt", "");
  files.put_file("/c/latest_universal", "step1_universal\n");
  std::string root;
  EXPECT_EQ(find_tag_folder(files, "/c", &root).value(), "/c/step1_universal");
  files.put_file("/c/latest", "step1");
  EXPECT_EQ(find_tag_folder(files, "/c", &root).value(), "/c/step1");
  EXPECT_EQ(root, "/c");
  EXPECT_EQ(find_tag_folder(files, "/c/step1", &root).value(), "/c/step1");
  EXPECT_EQ(root, "");
}

TEST(TagFolder, StaysBelowTheRoot) {
  MemoryFileSystem files;
  files.put_file("/d/mp_rank_00_model_states.pt", "");
  files.put_file("/c/latest", "../d");
  std::string root;
  EXPECT_FALSE(find_tag_folder(files, "/c", &root).has_value());
}

}  // namespace
}  // namespace tenplex::deepspeed
