// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The folders of a legacy Megatron checkpoint, one per model parallel rank, by their names alone:
//
//   latest_checkpointed_iteration.txt        "1000" or "release"
//   iter_0001000/mp_rank_01_003_002/         tensor rank 1, pipeline rank 3, expert rank 2
//                mp_rank_01_003/             without expert parallelism
//                mp_rank_01_002/             without pipeline parallelism: the second number may be either
//                mp_rank_01/                 tensor parallelism alone
//
// Pure but for the file system. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/file_system.h"

namespace tenplex::megatron_legacy {

/// A rank in the grid that the folders make.
struct RankFolder {
  std::string name;
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;
  std::int64_t expert = 0;
};

/// Sizes of the three axes and a folder for each of their combinations, tensor ranks fastest, then expert ranks.
struct RankFolders {
  std::int64_t tensor_size = 1;
  std::int64_t pipeline_size = 1;
  std::int64_t expert_size = 1;
  std::vector<RankFolder> ranks;

  const RankFolder& at(std::int64_t tensor, std::int64_t expert, std::int64_t pipeline) const {
    return ranks[static_cast<std::size_t>(tensor + tensor_size * (expert + expert_size * pipeline))];
  }
};

/// The numbers behind "mp_rank_": 1 to 3 of them, or none for any other name.
std::vector<std::int64_t> parse_rank_folder(std::string_view name);

/// The folder that holds the mp_rank folders: `path` itself, or the one that its latest_checkpointed_iteration.txt
/// names; nothing if neither. Errors: corrupt for a file that names no folder beside it; io.
Result<std::optional<std::string>> find_rank_folders(FileSystem& files, const std::string& path);

/// What the second number means where the folders have two.
enum class SecondNumber : std::uint8_t { kPipeline, kExpert };

/// Errors: corrupt naming the rank that is missing, or a folder of another form than the first; io.
Result<RankFolders> list_rank_folders(FileSystem& files, const std::string& folder, SecondNumber second);

}  // namespace tenplex::megatron_legacy
